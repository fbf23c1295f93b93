// Tables that sort, commands that copy, and (on a page that `recollect watch` serves) news without losing the reader's place.
const cellValue = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;

function sortTable(head, up) {
  const column = head.cellIndex;
  const body = head.closest("table").tBodies[0];
  const compare = (a, b) => Number(a) - Number(b) || a.localeCompare(b, undefined, { numeric: true });
  const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(cellValue(a, column), cellValue(b, column)));
  head.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}

document.addEventListener("click", async ({ target }) => {
  const head = target.closest("table.sortable th");
  if (head) sortTable(head, head.getAttribute("aria-sort") !== "ascending");
  const copy = target.closest("button.copy");
  if (copy) {
    const code = copy.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // no clipboard for us: the reader's own keys will do
      copy.textContent = "Selected";
    }
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  }
});

document.addEventListener("change", ({ target }) => {
  if (target.matches(".choices select")) redraw();
});
addEventListener("beforeprint", () => drawDirty(true));
for (const picture of pictures) watcher.observe(picture.section);
redraw();

// ---- live ----

const state = byId("live");
let version = "";

function take(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(part.id);
    if (!other || !part.isConnected || other.innerHTML === part.dataset.seen) continue;
    part.dataset.seen = other.innerHTML;
    part.replaceChildren(...other.childNodes);
    const sorted = part.closest("table.sortable")?.querySelector("th[aria-sort]");
    if (sorted) sortTable(sorted, sorted.getAttribute("aria-sort") === "ascending");
  }
  document.title = fresh.title;
  data = JSON.parse(fresh.getElementById("data").textContent);
  redraw();
}

async function ask() {
  try {
    const answer = await fetch("update", { headers: { "If-None-Match": version }, cache: "no-store" });
    if (answer.status === 200) {
      take(await answer.text());
      version = answer.headers.get("ETag");
    }
    const problem = answer.headers.get("X-Problem");
    state.textContent = answer.ok || answer.status === 304 ? `live · ${problem ?? `as of ${new Date().toLocaleTimeString()}`}` : `live · the server answered ${answer.status}`;
    state.classList.toggle("stale", Boolean(problem) || answer.status >= 400);
  } catch {
    state.textContent = "no longer live: `recollect watch` has ended; this is what it showed last";
    state.classList.add("stale");
  }
}
const askEvery = Number(document.body.dataset.every);
if (askEvery) {
  ask();
  setInterval(() => document.hidden || ask(), askEvery);
}

// Tables that sort, commands that copy and, on a page that `recollect watch` serves, news that keep
// the reader's place.
const cellValue = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;

function sortTable(head, up) {
  const column = head.cellIndex;
  const body = head.closest("table").tBodies[0];
  const compare = (a, b) =>
    Number(a) - Number(b) || a.localeCompare(b, undefined, { numeric: true });
  const sign = up ? 1 : -1;
  const rows = [...body.rows].sort(
    (a, b) => sign * compare(cellValue(a, column), cellValue(b, column)),
  );
  for (const other of head.parentElement.querySelectorAll("th"))
    other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}

async function copyCommand(button) {
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code); // no clipboard for us: the reader's own keys will do
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

document.addEventListener("click", ({ target }) => {
  const head = target.closest("table.sortable th");
  if (head) sortTable(head, head.getAttribute("aria-sort") !== "ascending");
  const copy = target.closest("button.copy");
  if (copy) copyCommand(copy);
});

document.addEventListener("change", ({ target }) => {
  if (target.matches(".choices select")) redraw();
});
darkScheme.addEventListener("change", () => {
  applyScheme();
  redraw();
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
  readData(fresh.getElementById("data").textContent);
  redraw();
}

function showState(answer) {
  const problem = answer.headers.get("X-Problem");
  const news = problem ?? `as of ${new Date().toLocaleTimeString()}`;
  const isFine = answer.ok || answer.status === 304;
  state.textContent = `live · ${isFine ? news : `the server answered ${answer.status}`}`;
  state.classList.toggle("stale", Boolean(problem) || answer.status >= 400);
}

async function ask() {
  try {
    const headers = { "If-None-Match": version };
    const answer = await fetch("update", { headers, cache: "no-store" });
    if (answer.status === 200) {
      take(await answer.text());
      version = answer.headers.get("ETag");
    }
    showState(answer);
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

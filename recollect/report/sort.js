// A click on a heading sorts its table; a second click turns the order round.
document.querySelectorAll("table.sortable th button").forEach((button) => {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const column = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const compare = (a, b) => Number(a) - Number(b) || a.localeCompare(b, undefined, { numeric: true });
    const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(value(a), value(b)));
    head.parentElement.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  });
});

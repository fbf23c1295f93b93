// Score against learning rate: a panel per task, width and depth, a line per mixer, its window as a bar above.
const MAX_PANELS = 24;

function panelsOf(cells) {
  const panels = new Map();
  for (const cell of cells) {
    if (cell.best === null) continue;
    const key = `${cell.task}/${cell.width}/${cell.depth}`;
    if (!panels.has(key)) panels.set(key, []);
    panels.get(key).push(cell);
  }
  return [...panels.entries()];
}

const cellsOf = (choice) => data.cells.filter((cell) => Object.keys(SIDES).every((side) => isChosen(choice[side], textOf(cell, side))));

// All there is, if that fits on a screen or two; else the task, then the depth, then the width with the most cells.
function firstView() {
  const found = { task: "", depth: "", width: "" };
  for (const side of Object.keys(found)) {
    const fitting = cellsOf(found);
    if (panelsOf(fitting).length <= 6) break;
    const counts = new Map();
    for (const cell of fitting) counts.set(textOf(cell, side), (counts.get(textOf(cell, side)) ?? 0) + 1);
    found[side] = [...counts.entries()].sort((a, b) => b[1] - a[1])[0][0];
  }
  return found;
}

function panelTitle(cell) {
  return `${data.tasks[cell.task]} · width ${data.widths[cell.width]} · ${layers(cell.depth)}`;
}

function ratePanel([key, cells], band) {
  const shown = cells.filter(isShown);
  const traces = [], windows = [];
  for (const cell of shown) {
    const { name, colour, symbol, dash } = labelOf(cell);
    const rates = cell.rates.filter((rate) => rate.bands);
    const x = rates.map((rate) => rate.lr);
    if (band !== "none") traces.push(bandTrace(x, rates.map((rate) => rate.bands[band][0]), rates.map((rate) => rate.bands[band][1]), colour));
    const text = (rate, own) => `<b>${safe(name)}</b> at ${rateText(rate.lr)}: mean ${scoreText(rate.mean)}<br>${runList(rate, own)}`;
    for (const status of ["done", "diverged"]) {
      const runs = rates.flatMap((rate) => rate.runs.filter((run) => run[2] === status && run[3] !== null).map((run) => [rate, run]));
      traces.push({
        type: "scatter", mode: "markers", x: runs.map(([rate]) => rate.lr), y: runs.map(([, run]) => run[3]), hoverinfo: "text",
        hovertext: runs.map(([rate, run]) => text(rate, run)),
        marker: status === "done" ? { symbol, size: 5, color: colour, opacity: 0.4 } : { symbol: "x-thin", size: 9, color: colour, line: { width: 1.6, color: colour } },
      });
    }
    traces.push({
      type: "scatter", mode: "lines+markers", name, x, y: rates.map((rate) => rate.mean), hoverinfo: "text", hovertext: rates.map((rate) => text(rate)),
      line: { color: colour, dash, width: 2 }, marker: { symbol, size: 8, color: colour, line: { color: "#fff", width: 1 } },
    });
    if (cell.window) windows.push(windowBar(cell, name, colour, 1.065 + 0.055 * windows.length));
  }
  const lrs = cells.flatMap((cell) => cell.rates.filter((rate) => rate.bands).map((rate) => rate.lr));
  const x = rateAxis(lrs);
  const [low, high] = x.range;
  const top = 1.04 + 0.055 * windows.length;
  const line = (more) => ({ type: "line", layer: "below", line: { color: FAINT, width: 1, ...more.line }, ...more.at });
  const shapes = [
    line({ at: { xref: "paper", x0: 0, x1: 1, y0: data.tau, y1: data.tau }, line: { width: 0.8 } }),
    ...distinct(cells.map((cell) => cell.chance)).map((chance) => line({ at: { xref: "paper", x0: 0, x1: 1, y0: chance, y1: chance }, line: { dash: "dot", width: 1.2 } })),
    ...data.zoology.filter((rate) => Math.log10(rate) > low && Math.log10(rate) < high)
      .map((rate) => line({ at: { x0: rate, x1: rate, y0: 0, y1: 1 }, line: { dash: "dash" } })),
  ];
  const names = distinct(cells.map((cell) => scoreNames[cell.score] ?? cell.score)).join(" / ");
  return {
    key, title: panelTitle(cells[0]), height: 330 + 9 * windows.length, traces: [...traces, ...windows],
    layout: layout({ xaxis: x, yaxis: axis(names, { range: [-0.03, top], tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0", ".25", ".5", ".75", "1"] }), shapes }),
  };
}

// An arrow at an end says that the grid ended there, not the window.
function windowBar(cell, name, colour, height) {
  const [low, high, openLow, openHigh] = cell.window;
  const decades = Math.log10(high / low);
  return {
    type: "scatter", mode: "lines+markers", x: [low, high], y: [height, height], line: { color: colour, width: 4 }, cliponaxis: false, hoverinfo: "text",
    hovertext: `<b>${safe(name)}</b>: at least ${data.tau} from ${rateText(low)} to ${rateText(high)},<br>${openLow || openHigh ? "at least " : ""}${decades.toFixed(2)} decades`,
    marker: { symbol: [openLow ? "triangle-left" : "line-ns", openHigh ? "triangle-right" : "line-ns"], size: [openLow ? 10 : 8, openHigh ? 10 : 8], color: colour, line: { color: colour, width: 1.5 } },
  };
}

pictures.push({
  section: byId("rates"),
  prepare() {
    const first = firstView();
    this.choice = Object.fromEntries(Object.entries(SIDES).map(([side, all]) => [side, offer(`rates-${side}`, withAll(data[all]), first[side])]));
    this.band = offer("rates-band", [...data.bands.map((kind, index) => [index, kind]), ["none", "none"]], 0);
    return data.cells.some((cell) => cell.best !== null);
  },
  draw() {
    const panels = panelsOf(cellsOf(this.choice));
    plotInto(byId("rates-plots"), panels.slice(0, MAX_PANELS).map((panel) => ratePanel(panel, this.band)));
    byId("rates-cut").textContent =
      panels.length === 0 ? "No run has a result for this choice." : panels.length > MAX_PANELS ? `The first ${MAX_PANELS} of ${panels.length} panels are drawn: choose a task, a width or a depth.` : "";
  },
});

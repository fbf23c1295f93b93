// Score against learning rate: a panel per task, width and depth, a line per mixer, its window as a
// bar above.
const MAX_PANELS = 24;
const BAR = { lowest: 1.065, apart: 0.055, pixels: 9 }; // of the windows above a panel

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

const cellsOf = (choice) =>
  data.cells.filter((cell) =>
    Object.keys(SIDES).every((side) => isChosen(choice[side], textOf(cell, side))),
  );

// All there is, if that fits on a screen or two; else the task, then the depth, then the width with
// the most cells.
function firstView() {
  const found = { task: "", depth: "", width: "" };
  for (const side of Object.keys(found)) {
    const fitting = cellsOf(found);
    if (panelsOf(fitting).length <= 6) break;
    const counts = new Map();
    for (const cell of fitting) {
      const text = textOf(cell, side);
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    found[side] = [...counts.entries()].sort((a, b) => b[1] - a[1])[0][0];
  }
  return found;
}

const panelTitle = (cell) =>
  `${data.tasks[cell.task]} · width ${data.widths[cell.width]} · ${layers(cell.depth)}`;

const scoredRates = (cell) => cell.rates.filter((rate) => rate.bands);

function hoverText(name, rate, own) {
  const head = `<b>${safe(name)}</b> at ${rateText(rate.lr)}: mean ${scoreText(rate.mean)}`;
  return `${head}<br>${runList(rate, own)}`;
}

// Single runs of one status: faint marks, or crosses for those that diverged.
function runMarks(cell, status) {
  const { name, colour, symbol } = labelOf(cell);
  const runs = scoredRates(cell).flatMap((rate) =>
    rate.runs.filter((run) => run[2] === status && run[3] !== null).map((run) => [rate, run]),
  );
  const faint = { symbol, size: 5, color: colour, opacity: 0.4 };
  const cross = { symbol: "x-thin", size: 9, color: colour, line: { width: 1.6, color: colour } };
  return {
    type: "scatter",
    mode: "markers",
    x: runs.map(([rate]) => rate.lr),
    y: runs.map(([, run]) => run[3]),
    hoverinfo: "text",
    hovertext: runs.map(([rate, run]) => hoverText(name, rate, run)),
    marker: status === "done" ? faint : cross,
  };
}

function meanLine(cell) {
  const { name, colour, symbol, dash } = labelOf(cell);
  const rates = scoredRates(cell);
  return {
    type: "scatter",
    mode: "lines+markers",
    name,
    x: rates.map((rate) => rate.lr),
    y: rates.map((rate) => rate.mean),
    hoverinfo: "text",
    hovertext: rates.map((rate) => hoverText(name, rate)),
    line: { color: colour, dash, width: data.lineWidth },
    marker: { symbol, size: 8, color: colour, line: { color: COLOURS.paper, width: 1 } },
  };
}

function ratePanel([key, cells], band) {
  const traces = [], windows = [];
  for (const cell of cells.filter(isShown)) {
    const rates = scoredRates(cell);
    const x = rates.map((rate) => rate.lr);
    if (band !== "none") traces.push(bandTrace(x, rates, band, labelOf(cell).colour));
    traces.push(runMarks(cell, "done"), runMarks(cell, "diverged"), meanLine(cell));
    if (cell.window) windows.push(windowBar(cell, BAR.lowest + BAR.apart * windows.length));
  }
  const x = rateAxis(cells.flatMap(scoredRates).map((rate) => rate.lr));
  const [low, high] = x.range;
  const inRange = (rate) => Math.log10(rate) > low && Math.log10(rate) < high;
  return {
    key,
    title: panelTitle(cells[0]),
    height: 330 + BAR.pixels * windows.length,
    traces: [...traces, ...windows],
    layout: layout({
      xaxis: x,
      yaxis: axis(scoreNames(cells), {
        range: [-0.03, 1.04 + BAR.apart * windows.length],
        tickvals: [0, 0.25, 0.5, 0.75, 1],
        ticktext: ["0", ".25", ".5", ".75", "1"],
      }),
      shapes: [
        guide(data.tau, { width: 0.8 }),
        ...floorGuides(cells),
        ...data.zoology
          .filter(inRange)
          .map((rate) => guide(0, { dash: "dash" }, { xref: "x", x0: rate, x1: rate, y1: 1 })),
      ],
    }),
  };
}

// An arrow at an end says that the grid ended there, not the window.
function windowBar(cell, height) {
  const { name, colour } = labelOf(cell);
  const [low, high, openLow, openHigh] = cell.window;
  const decades = Math.log10(high / low).toFixed(2);
  const range = `from ${rateText(low)} to ${rateText(high)}`;
  const bound = openLow || openHigh ? "at least " : "";
  return {
    type: "scatter",
    mode: "lines+markers",
    x: [low, high],
    y: [height, height],
    line: { color: colour, width: 4 },
    cliponaxis: false,
    hoverinfo: "text",
    hovertext:
      `<b>${safe(name)}</b>: at least ${data.tau} ${range},<br>${bound}${decades} decades`,
    marker: {
      symbol: [openLow ? "triangle-left" : "line-ns", openHigh ? "triangle-right" : "line-ns"],
      size: [openLow ? 10 : 8, openHigh ? 10 : 8],
      color: colour,
      line: { color: colour, width: 1.5 },
    },
  };
}

pictures.push({
  section: byId("rates"),
  prepare() {
    const first = firstView();
    const chosen = ([side, all]) => [
      side,
      offer(`rates-${side}`, withAll(data[all]), first[side]),
    ];
    this.choice = Object.fromEntries(Object.entries(SIDES).map(chosen));
    this.band = offerBand("rates-band");
    return data.cells.some((cell) => cell.best !== null);
  },
  draw() {
    const panels = panelsOf(cellsOf(this.choice));
    const drawn = panels.slice(0, MAX_PANELS);
    plotInto(
      byId("rates-plots"),
      drawn.map((panel) => ratePanel(panel, this.band)),
    );
    const cut =
      `The first ${MAX_PANELS} of ${panels.length} panels are drawn: ` +
      "choose a task, a width or a depth.";
    const none = "No run has a result for this choice.";
    byId("rates-cut").textContent =
      panels.length === 0 ? none : panels.length > MAX_PANELS ? cut : "";
  },
});

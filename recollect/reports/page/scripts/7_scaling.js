// Best score against width, parameters and state: a line per mixer and depth.
const SIZES = {
  width: { text: "width", of: (cell) => data.widthNumbers[cell.width] },
  parameters: { text: "parameters", of: (cell) => cell.parameters },
  state: { text: "state size (floats per layer)", of: (cell) => cell.state },
};
const DEPTH_DASHES = ["solid", "dash", "dot", "dashdot"];
const DASH_WORDS = ["solid", "dashed", "dotted", "dash-dotted"];

function scalingLines(cells, size) {
  const lines = new Map();
  for (const cell of cells) {
    if (cell.best === null || !(SIZES[size].of(cell) > 0)) continue;
    const key = `${cell.label}/${cell.depth}`;
    if (!lines.has(key)) lines.set(key, []);
    lines.get(key).push(cell);
  }
  const bySize = (a, b) => SIZES[size].of(a) - SIZES[size].of(b);
  return [...lines.values()].map((line) => line.sort(bySize));
}

const countText = (count) => count?.toLocaleString("en") ?? "?";

function scalingHover(cell) {
  const { name } = labelOf(cell);
  const best = bestRate(cell);
  const where = `width ${safe(data.widths[cell.width])}, ${safe(layers(cell.depth))}`;
  const score = `${scoreText(best.mean)} at rate ${rateText(best.lr)}`;
  const sizes =
    `${countText(cell.parameters)} parameters, state of ${countText(cell.state)} floats`;
  return `<b>${safe(name)}</b>, ${where}: ${score}<br>${sizes}<br>${runList(best)}`;
}

// Depths differ by dashes, and by filled and hollow marks in turn.
function scalingTraces(line, size, band) {
  const { name, colour, symbol } = labelOf(line[0]);
  const { depth } = line[0];
  const x = line.map(SIZES[size].of), best = line.map(bestRate);
  const hollow = { color: COLOURS.paper, line: { color: colour, width: 1.8 } };
  const filled = { color: colour, line: { color: COLOURS.paper, width: 1 } };
  const means = {
    type: "scatter",
    mode: "lines+markers",
    name,
    x,
    y: best.map((rate) => rate.mean),
    line: { color: colour, width: data.lineWidth, dash: DEPTH_DASHES[depth % 4] },
    marker: { symbol, size: 9, ...(depth % 2 ? hollow : filled) },
    hoverinfo: "text",
    hovertext: line.map(scalingHover),
  };
  return band === "none" ? [means] : [bandTrace(x, best, band, colour), means];
}

function sizeAxis(size, values) {
  const atWidths = { tickvals: values, ticktext: values.map(String) };
  const atDecades = {
    dtick: 1,
    exponentformat: "power",
    minor: { ticks: "outside", ticklen: 2, tickcolor: COLOURS.faint },
  };
  return axis(SIZES[size].text, { type: "log", ...(size === "width" ? atWidths : atDecades) });
}

function depthWords() {
  const words = data.depths.map((_, place) => {
    const marks = place % 2 ? "hollow" : "filled";
    return `${layers(place)}: ${DASH_WORDS[place % 4]}, ${marks} marks`;
  });
  return words.length > 1 ? words.join("; ") + "." : "";
}

const cellsOfTask = (task) => data.cells.filter((cell) => cell.task === task);

pictures.push({
  section: byId("scaling"),
  prepare() {
    const isGrowing = (task) =>
      scalingLines(cellsOfTask(task), "width").some((line) => line.length > 1);
    const tasks = data.tasks.map((_, task) => task).filter(isGrowing);
    if (!tasks.length) return false;
    const names = tasks.map((task) => data.tasks[task]);
    this.task = data.tasks.indexOf(offer("scaling-task", named(names), names[0]));
    const hasLines = (size) => scalingLines(cellsOfTask(this.task), size).length;
    const sizes = Object.keys(SIZES).filter(hasLines);
    const options = sizes.map((size) => [size, SIZES[size].text]);
    this.size = offer("scaling-size", options, "width");
    this.band = offerBand("scaling-band");
    return true;
  },
  draw() {
    const cells = cellsOfTask(this.task);
    const lines = scalingLines(cells.filter(isShown), this.size);
    const sizes = cells.map(SIZES[this.size].of).filter((value) => value > 0);
    const values = distinct(sizes).sort((a, b) => a - b);
    const plot = {
      key: `scaling ${this.task} ${this.size}`,
      title: data.tasks[this.task],
      height: 400,
      traces: lines.flatMap((line) => scalingTraces(line, this.size, this.band)),
      layout: layout({
        xaxis: sizeAxis(this.size, values),
        yaxis: axis(`${scoreNames(cells)}, best rate`, { range: [-0.03, 1.05] }),
        shapes: floorGuides(cells),
      }),
    };
    plotInto(byId("scaling-plots"), [plot]);
    byId("scaling-depths").textContent = depthWords();
  },
});

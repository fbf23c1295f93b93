// What a score does as models and rows grow: a map over widths and tasks for each mixer, and lines over width, parameters and state.
const MEASURES = {
  score: { text: "best score", of: (cell) => bestRate(cell)?.mean, show: scoreText, range: () => [0, 1] },
  window: {
    text: "width of the window, decades", of: (cell) => (cell.best === null ? undefined : cell.window ? Math.log10(cell.window[1] / cell.window[0]) : 0),
    show: (value) => value.toFixed(2), range: (values) => [0, Math.max(1, ...values)],
  },
  rate: {
    text: "best learning rate", of: (cell) => (cell.best === null ? undefined : Math.log10(bestRate(cell).lr)),
    show: (value) => rateText(10 ** value), range: (values) => [Math.min(...values) - 0.01, Math.max(...values) + 0.01],
  },
};
const MAX_MAPS = 24;
const PALE_TO_DARK = ["#f4f8fb", "#cfe3f0", "#9cc7e0", "#5fa4cb", "#0072b2"].map((colour, place) => [place / 4, colour]); // one hue: grey print keeps the order

// The name of the one task there is goes without saying; its sizes are what differs.
function shortTasks() {
  const names = data.tasks.map((task) => task.split(", ")[0]);
  return data.tasks.map((task) => (distinct(names).length === 1 && task.includes(", ") ? task.slice(names[0].length + 2) : task));
}

function heatMap(label, cells, measure, range) {
  const [widths, tasks] = [data.widths, data.tasks].map((names) => names.map((_, place) => place));
  const at = (task, width) => cells.find((cell) => cell.task === task && cell.width === width);
  const value = (task, width) => { const cell = at(task, width); return (cell && measure.of(cell)) ?? null; };
  const hover = (task, width) => {
    const cell = at(task, width);
    if (!cell) return "not planned";
    if (cell.best === null) return "no result yet";
    return `best at ${rateText(bestRate(cell).lr)}: mean ${scoreText(bestRate(cell).mean)}<br>${runList(bestRate(cell))}`;
  };
  const grid = (of) => tasks.map((task) => widths.map((width) => of(task, width)));
  const head = (task, width) => `<b>${safe(data.labels[label].name)}</b><br>${safe(data.tasks[task])}, width ${safe(data.widths[width])}<br>`;
  const missing = tasks.flatMap((task, y) => widths.flatMap((width, x) => (value(task, width) === null ? [[x, y, head(task, width) + hover(task, width)]] : [])));
  const many = widths.length > 10;
  const category = (indices, names) => ({ type: "linear", tickvals: indices.map((_, place) => place), ticktext: indices.map((index) => safe(names[index])), showgrid: false, range: [-0.5, indices.length - 0.5] });
  return {
    key: `map ${label}`, title: data.labels[label].name, height: 120 + 34 * tasks.length,
    traces: [
      {
        type: "heatmap", z: grid(value), x: widths.map((_, place) => place), y: tasks.map((_, place) => place), colorscale: PALE_TO_DARK, zmin: range[0], zmax: range[1], xgap: 2, ygap: 2, showscale: false,
        text: grid((task, width) => (value(task, width) === null || many ? "" : measure.show(value(task, width)))), texttemplate: "%{text}",
        hovertext: grid((task, width) => head(task, width) + hover(task, width)), hoverinfo: "text", hoverongaps: false,
      },
      { type: "scatter", mode: "text", x: missing.map(([x]) => x), y: missing.map(([, y]) => y), text: missing.map(() => "–"), textfont: { color: FAINT }, hovertext: missing.map(([, , text]) => text), hoverinfo: "text" },
    ],
    layout: layout({ margin: { l: 8, r: 8, t: 6, b: 44 }, plot_bgcolor: "#eeeeee", xaxis: axis("width", category(widths, data.widths)), yaxis: axis("", { ...category(tasks, shortTasks()), range: [tasks.length - 0.5, -0.5], automargin: true, ticks: "" }) }),
  };
}

pictures.push({
  section: byId("maps"),
  prepare() {
    this.depth = data.depths.indexOf(offer("maps-depth", named(data.depths), data.depths[0]));
    this.measure = offer("maps-measure", Object.entries(MEASURES).map(([name, { text }]) => [name, text]), "score");
    const scored = data.cells.filter((cell) => cell.best !== null);
    return scored.length > 0 && (data.widths.length > 1 || data.tasks.length > 1);
  },
  draw() {
    const measure = MEASURES[this.measure];
    const cells = data.cells.filter((cell) => cell.depth === this.depth && isShown(cell));
    const values = cells.map(measure.of).filter((value) => value !== undefined);
    const labels = distinct(cells.map((cell) => cell.label));
    const range = measure.range(values.length ? values : [0]);
    plotInto(byId("maps-plots"), labels.slice(0, MAX_MAPS).map((label) => heatMap(label, cells.filter((cell) => cell.label === label), measure, range)));
    byId("maps-cut").textContent = labels.length > MAX_MAPS ? `The first ${MAX_MAPS} of ${labels.length} maps are drawn: hide others in the legend.` : "";
  },
});

const SIZES = {
  width: { text: "width", of: (cell) => data.widthNumbers[cell.width] },
  parameters: { text: "parameters", of: (cell) => cell.parameters },
  state: { text: "state size (floats per layer)", of: (cell) => cell.state },
};
const DEPTH_DASHES = ["solid", "dash", "dot", "dashdot"];

function scalingLines(cells, size) {
  const lines = new Map();
  for (const cell of cells) {
    if (cell.best === null || !(SIZES[size].of(cell) > 0)) continue;
    const key = `${cell.label}/${cell.depth}`;
    if (!lines.has(key)) lines.set(key, []);
    lines.get(key).push(cell);
  }
  return [...lines.values()].map((line) => line.sort((a, b) => SIZES[size].of(a) - SIZES[size].of(b)));
}

pictures.push({
  section: byId("scaling"),
  prepare() {
    const growing = (cells, size) => scalingLines(cells, size).some((line) => line.length > 1);
    const ofTask = (task) => data.cells.filter((cell) => cell.task === task);
    const tasks = data.tasks.map((_, task) => task).filter((task) => growing(ofTask(task), "width"));
    if (!tasks.length) return false;
    this.task = data.tasks.indexOf(offer("scaling-task", named(tasks.map((task) => data.tasks[task])), data.tasks[tasks[0]]));
    const sizes = Object.keys(SIZES).filter((size) => scalingLines(ofTask(this.task), size).length);
    this.size = offer("scaling-size", sizes.map((size) => [size, SIZES[size].text]), "width");
    this.band = offer("scaling-band", [...data.bands.map((kind, index) => [index, kind]), ["none", "none"]], 0);
    return true;
  },
  draw() {
    const cells = data.cells.filter((cell) => cell.task === this.task && isShown(cell));
    const size = SIZES[this.size];
    const traces = scalingLines(cells, this.size).flatMap((line) => {
      const { name, colour, symbol } = labelOf(line[0]);
      const { depth } = line[0];
      const x = line.map(size.of), best = line.map(bestRate);
      const mark = depth % 2 ? { color: "#fff", line: { color: colour, width: 1.8 } } : { color: colour, line: { color: "#fff", width: 1 } };
      const trace = {
        type: "scatter", mode: "lines+markers", name, x, y: best.map((rate) => rate.mean), line: { color: colour, width: 2, dash: DEPTH_DASHES[depth % 4] }, marker: { symbol, size: 9, ...mark }, hoverinfo: "text",
        hovertext: line.map((cell, place) => `<b>${safe(name)}</b>, width ${safe(data.widths[cell.width])}, ${safe(layers(cell.depth))}: ${scoreText(best[place].mean)} at rate ${rateText(best[place].lr)}<br>` +
          `${cell.parameters?.toLocaleString("en") ?? "?"} parameters, state of ${cell.state?.toLocaleString("en") ?? "?"} floats<br>${runList(best[place])}`),
      };
      return this.band === "none" ? [trace] : [bandTrace(x, best.map((rate) => rate.bands[this.band][0]), best.map((rate) => rate.bands[this.band][1]), colour), trace];
    });
    const values = distinct(data.cells.filter((cell) => cell.task === this.task).map(size.of).filter((value) => value > 0)).sort((a, b) => a - b);
    const ticks = this.size === "width" ? { tickvals: values, ticktext: values.map(String) } : { dtick: 1, exponentformat: "power", minor: { ticks: "outside", ticklen: 2, tickcolor: FAINT } };
    const names = distinct(data.cells.filter((cell) => cell.task === this.task).map((cell) => scoreNames[cell.score] ?? cell.score)).join(" / ");
    const chance = data.cells.find((cell) => cell.task === this.task).chance;
    plotInto(byId("scaling-plots"), [{
      key: `scaling ${this.task} ${this.size}`, title: data.tasks[this.task], height: 400, traces,
      layout: layout({
        xaxis: axis(size.text, { type: "log", ...ticks }), yaxis: axis(`${names}, best rate`, { range: [-0.03, 1.05] }),
        shapes: [{ type: "line", layer: "below", xref: "paper", x0: 0, x1: 1, y0: chance, y1: chance, line: { color: FAINT, dash: "dot", width: 1.2 } }],
      }),
    }]);
    byId("scaling-depths").textContent = data.depths.length > 1 ? data.depths.map((_, place) => `${layers(place)}: ${["solid", "dashed", "dotted", "dash-dotted"][place % 4]}, ${place % 2 ? "hollow" : "filled"} marks`).join("; ") + "." : "";
  },
});

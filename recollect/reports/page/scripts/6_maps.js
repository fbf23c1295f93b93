// A map over widths and tasks for each mixer: best score, width of the window, or best rate.
const MEASURES = {
  score: {
    text: "best score",
    of: (cell) => bestRate(cell)?.mean,
    show: scoreText,
    range: () => [0, 1],
  },
  window: {
    text: "width of the window, decades",
    of: (cell) => (cell.best === null ? undefined : windowDecades(cell)),
    show: (value) => value.toFixed(2),
    range: (values) => [0, Math.max(1, ...values)],
  },
  rate: {
    text: "best learning rate",
    of: (cell) => (isTrainable(cell) ? Math.log10(bestRate(cell).lr) : undefined),
    show: (value) => rateText(10 ** value),
    range: (values) => [Math.min(...values) - 0.01, Math.max(...values) + 0.01],
  },
};
const MAX_MAPS = 24;
const MAX_NUMBERS = 10; // widths; more leave no room for numbers in a map
const INK_UP_TO = 0.6; // of the range: what is darker is written on in the colour of the page

const windowDecades = (cell) => (cell.window ? Math.log10(cell.window[1] / cell.window[0]) : 0);

// The name of the one task there is goes without saying; its sizes are what differs.
function shortTasks() {
  const names = data.tasks.map((task) => task.split(", ")[0]);
  const isOne = distinct(names).length === 1;
  return data.tasks.map((task) =>
    isOne && task.includes(", ") ? task.slice(names[0].length + 2) : task,
  );
}

function mapHover(label, cell, task, width) {
  const where = `${safe(data.tasks[task])}, width ${safe(data.widths[width])}`;
  const head = `<b>${safe(data.labels[label].name)}</b><br>${where}<br>`;
  if (!cell) return head + "not planned";
  if (cell.best === null) return head + "no result yet";
  const best = bestRate(cell);
  const score = isTrainable(cell)
    ? `best at ${rateText(best.lr)}: mean ${scoreText(best.mean)}`
    : "every run diverged";
  return `${head}${score}<br>${runList(best)}`;
}

const namedAxis = (names) => ({
  type: "linear",
  tickvals: names.map((_, place) => place),
  ticktext: names.map(safe),
  showgrid: false,
  range: [-0.5, names.length - 0.5],
});

function heatMap(label, cells, measure, range) {
  const [widths, tasks] = [data.widths, data.tasks].map((names) => names.map((_, place) => place));
  const at = (task, width) => cells.find((cell) => cell.task === task && cell.width === width);
  const hover = (task, width) => mapHover(label, at(task, width), task, width);
  const value = (task, width) => {
    const cell = at(task, width);
    return (cell && measure.of(cell)) ?? null;
  };
  const number = (task, width) => {
    const found = value(task, width);
    return found === null || widths.length > MAX_NUMBERS ? "" : measure.show(found);
  };
  const places = tasks.flatMap((task) => widths.map((width) => [task, width]));
  const isMissing = ([task, width]) => value(task, width) === null;
  const [missing, found] = [places.filter(isMissing), places.filter((at) => !isMissing(at))];
  const share = ([task, width]) => (value(task, width) - range[0]) / (range[1] - range[0]);
  const box = ([task, width]) => ({
    type: "rect",
    layer: "below",
    x0: width - 0.48,
    x1: width + 0.48,
    y0: task - 0.46,
    y1: task + 0.46,
    fillcolor: between(COLOURS.scores, share([task, width])),
    line: { width: 0 },
  });
  return {
    key: `map ${label}`,
    title: data.labels[label].name,
    height: 120 + 34 * tasks.length,
    traces: [
      {
        type: "scatter",
        mode: "text",
        x: found.map(([, width]) => width),
        y: found.map(([task]) => task),
        text: found.map(([task, width]) => number(task, width)),
        textfont: {
          color: found.map((at) => (share(at) > INK_UP_TO ? COLOURS.paper : COLOURS.ink)),
        },
        hovertext: found.map(([task, width]) => hover(task, width)),
        hoverinfo: "text",
      },
      {
        type: "scatter",
        mode: "text",
        x: missing.map(([, width]) => width),
        y: missing.map(([task]) => task),
        text: missing.map(() => "–"),
        textfont: { color: COLOURS.faint },
        hovertext: missing.map(([task, width]) => hover(task, width)),
        hoverinfo: "text",
      },
    ],
    layout: layout({
      margin: { l: 8, r: 8, t: 6, b: 44 },
      plot_bgcolor: COLOURS.missing,
      shapes: found.map(box),
      xaxis: axis("width", namedAxis(data.widths)),
      yaxis: axis("", {
        ...namedAxis(shortTasks()),
        range: [tasks.length - 0.5, -0.5],
        automargin: true,
        ticks: "",
      }),
    }),
  };
}

pictures.push({
  section: byId("maps"),
  prepare() {
    const measures = Object.entries(MEASURES).map(([name, { text }]) => [name, text]);
    this.depth = data.depths.indexOf(offer("maps-depth", named(data.depths), data.depths[0]));
    this.measure = offer("maps-measure", measures, "score");
    const isScored = data.cells.some((cell) => cell.best !== null);
    return isScored && (data.widths.length > 1 || data.tasks.length > 1);
  },
  draw() {
    const measure = MEASURES[this.measure];
    const cells = data.cells.filter((cell) => cell.depth === this.depth && isShown(cell));
    const values = cells.map(measure.of).filter((value) => value !== undefined);
    const range = measure.range(values.length ? values : [0]);
    const labels = distinct(cells.map((cell) => cell.label));
    const own = (label) => cells.filter((cell) => cell.label === label);
    const drawn = labels.slice(0, MAX_MAPS);
    plotInto(
      byId("maps-plots"),
      drawn.map((label) => heatMap(label, own(label), measure, range)),
    );
    const cut =
      `The first ${MAX_MAPS} of ${labels.length} maps are drawn: hide others in the legend.`;
    byId("maps-cut").textContent = labels.length > MAX_MAPS ? cut : "";
  },
});

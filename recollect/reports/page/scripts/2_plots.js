// How plots look, their legends, and the moment a plot is drawn.
const font = (more = {}) => ({
  family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
  size: 12,
  color: COLOURS.ink,
  ...more,
});
const isTouch = matchMedia("(pointer: coarse)").matches;
// The buttons are named one by one: left to itself, plotly offers to upload a reader's data.
const CONFIG = {
  responsive: true,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  displayModeBar: isTouch ? false : "hover",
};
const axis = (title, more = {}) => ({
  title: { text: title, standoff: 8 },
  gridcolor: COLOURS.grid,
  zeroline: false,
  linecolor: COLOURS.faint,
  ticks: "outside",
  tickcolor: COLOURS.faint,
  ticklen: 4,
  ...more,
});
const layout = (more) => ({
  font: font(),
  margin: { l: 56, r: 12, t: 24, b: 48 },
  paper_bgcolor: COLOURS.paper,
  plot_bgcolor: COLOURS.paper,
  showlegend: false,
  hovermode: "closest",
  hoverlabel: {
    bgcolor: COLOURS.paper,
    bordercolor: COLOURS.faint,
    align: "left",
    font: font(),
    namelength: -1,
  },
  dragmode: isTouch ? false : "zoom", // on a touch screen a finger scrolls the page
  uirevision: "kept",
  ...more,
});

// A logarithmic axis with ticks at 1 (and 3, if the range is short), written as the tables do.
function rateAxis(rates) {
  const low = Math.min(...rates) / 1.25, high = Math.max(...rates) * 1.25;
  const digits = high / low > 80 ? [1] : [1, 3];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const digit of digits) ticks.push(digit * 10 ** power);
  const inside = ticks.filter((tick) => tick >= low && tick <= high);
  const shown = inside.length ? inside : [rates[0]];
  return axis("learning rate", {
    type: "log",
    range: [Math.log10(low), Math.log10(high)],
    tickvals: shown,
    ticktext: shown.map(rateText),
    showgrid: false,
  });
}

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// A colour of a scale, at a share from 0 to 1 of its length.
function between(scale, share) {
  const place = Math.max(0, Math.min(1, share)) * (scale.length - 1);
  const [left, right] = [Math.floor(place), Math.ceil(place)].map((at) => channels(scale[at]));
  const mixed = left.map((value, index) => value + (right[index] - value) * (place % 1));
  return `rgb(${mixed.map(Math.round).join(",")})`;
}

// A line across the whole plot at one height, or whatever `more` makes of it.
const guide = (height, line = {}, more = {}) => ({
  type: "line",
  layer: "below",
  xref: "paper",
  x0: 0,
  x1: 1,
  y0: height,
  y1: height,
  line: { color: COLOURS.faint, width: 1, ...line },
  ...more,
});

// Plotly draws what is "below" under its grid, which would hide a level at one of its heights.
const dottedGuide = (height, dash, more) =>
  guide(height, { dash, width: 1.2 }, { layer: "above", ...more });

// Chance, and with fewer dots what the position of a question alone gives beyond it.
function floorGuides(cells, more = {}) {
  const positions = cells.map((cell) => cell.position).filter((level) => level !== null);
  return [
    ...distinct(cells.map((cell) => cell.chance)).map((level) => dottedGuide(level, "dot", more)),
    ...distinct(positions).map((level) => dottedGuide(level, "1px,6px", more)),
  ];
}

// The band over seeds around the means of some rates.
function bandTrace(x, rates, kind, colour) {
  const [low, high] = [0, 1].map((side) => rates.map((rate) => rate.bands[kind][side]));
  return {
    type: "scatter",
    mode: "lines",
    x: [...x, ...[...x].reverse()],
    y: [...high, ...[...low].reverse()],
    fill: "toself",
    fillcolor: colour + "22",
    line: { width: 0 },
    hoverinfo: "skip",
  };
}

// ---- legends: one button per label, which shows or hides it everywhere ----

const SHAPES = {
  circle: "M12 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
  square: "M12.5 2.5h7v7h-7z",
  diamond: "M16 1l5 5l-5 5l-5-5z",
  "diamond-tall": "M16 0l3 6l-3 6l-3-6z",
  "triangle-up": "M16 1l5 9h-10z",
  "triangle-down": "M16 11l5-9h-10z",
  "triangle-left": "M11 6l9-5v10z",
  "triangle-right": "M21 6l-9-5v10z",
  cross: "M14.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
  hexagon: "M16 1l4.5 2.5v5L16 11l-4.5-2.5v-5z",
  pentagon: "M16 1l5 3.6l-1.9 5.9h-6.2l-1.9-5.9z",
};

function swatch({ colour, symbol, dash }) {
  const made = (tag, attributes) => {
    const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    return part;
  };
  const dashes = dash === "solid" ? "" : dash;
  const size = { viewBox: "0 0 32 12", width: 32, height: 12, "aria-hidden": "true" };
  const stroke = { stroke: colour, "stroke-width": data.lineWidth, "stroke-dasharray": dashes };
  const picture = made("svg", size);
  picture.append(
    made("path", { d: "M0 6H32", ...stroke }),
    made("path", { d: SHAPES[symbol], fill: colour, stroke: COLOURS.paper, "stroke-width": 0.8 }),
  );
  return picture;
}

function legendButton(label) {
  const button = element("button", {
    type: "button",
    "aria-pressed": String(!hiddenLabels.has(label.name)),
    title: "click: show or hide; double click: only this one",
  });
  button.append(swatch(label), label.name);
  button.addEventListener("click", () => {
    if (!hiddenLabels.delete(label.name)) hiddenLabels.add(label.name);
    redraw();
  });
  button.addEventListener("dblclick", () => {
    hiddenLabels.clear();
    for (const other of data.labels) if (other.name !== label.name) hiddenLabels.add(other.name);
    redraw();
  });
  return button;
}

function drawLegends() {
  for (const legend of document.querySelectorAll(".legend"))
    legend.replaceChildren(...data.labels.map(legendButton));
}

// ---- drawing when in sight ----

const pictures = []; // { section, prepare() -> whether there is anything to draw, draw() }
const inSight = new Set();
const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) inSight.delete(entry.target);
      else {
        inSight.add(entry.target);
        drawDirty();
      }
    }
  },
  { rootMargin: "400px" },
);

function drawDirty(everything = false) {
  for (const picture of pictures)
    if (picture.dirty && (everything || inSight.has(picture.section))) {
      picture.dirty = false;
      picture.draw();
    }
}

function redraw() {
  drawLegends();
  for (const picture of pictures) {
    const drawable = picture.prepare();
    picture.section.hidden = !drawable;
    picture.dirty = drawable;
  }
  drawDirty();
}

function plotBox(container, plot, place) {
  const known = [...container.children].find((child) => child.dataset.key === plot.key);
  const [title, inner] = [element("figcaption"), element("div", { class: "plot" })];
  const box = known ?? element("figure", { "data-key": plot.key }, title, inner);
  const there = container.children[place];
  if (there !== box) container.insertBefore(box, there ?? null);
  box.firstElementChild.textContent = plot.title;
  box.lastElementChild.style.height = `${plot.height}px`;
  return box;
}

// One plot per key in a container; plots that are still wanted are updated in place and keep their
// zoom.
function plotInto(container, plots) {
  const wanted = new Set(plots.map((plot) => plot.key));
  for (const old of [...container.children])
    if (!wanted.has(old.dataset.key)) {
      Plotly.purge(old.lastElementChild);
      old.remove();
    }
  // All boxes stand before the first plot is drawn: a plot takes the width it finds.
  const boxes = plots.map((plot, place) => plotBox(container, plot, place));
  container.classList.toggle("single", plots.length === 1);
  plots.forEach((plot, place) => {
    const saved = { format: "svg", filename: plot.title.replace(/[^\w.-]+/g, "-") };
    const config = { ...CONFIG, toImageButtonOptions: saved };
    Plotly.react(boxes[place].lastElementChild, plot.traces, plot.layout, config);
  });
}

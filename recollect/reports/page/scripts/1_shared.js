// What all pictures share: the data, the reader's choices, text made safe for plotly, and the moment a picture is drawn.
let data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const hiddenLabels = new Set(); // by name, so that a live update keeps them

// Plotly reads a little HTML in its texts: a name must mean nothing there.
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const rateText = (rate) => {
  const [digits, power] = rate.toExponential(2).split("e");
  return `${Number(digits)}e${Number(power)}`;
};
const scoreText = (score) => (score < 1 ? Math.min(score, 0.999).toFixed(3) : "1.000");
const scoreNames = { exact: "rows all right (exact)", accuracy: "accuracy" };
const layers = (depth) => `${data.depths[depth]} layer${data.depths[depth] === "1" ? "" : "s"}`;
const distinct = (values) => [...new Set(values)];
const labelOf = (cell) => data.labels[cell.label];
const isShown = (cell) => !hiddenLabels.has(labelOf(cell).name);
const bestRate = (cell) => (cell.best === null ? null : cell.rates[cell.best]);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- choices ----

// Fill a select with [value, text] pairs and return what is chosen; a single option is no choice and is not shown.
function offer(id, options, preferred) {
  const select = byId(id);
  const before = select.dataset.filled ? select.value : preferred;
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  select.value = options.some(([value]) => String(value) === String(before)) ? before : options[0]?.[0] ?? "";
  select.dataset.filled = "yes";
  select.closest("label").hidden = options.length < 2;
  return select.value;
}

// Choices go by name: a live update may bring a new width, and places in a list would shift.
const named = (texts) => texts.map((text) => [text, text]);
const withAll = (texts) => [...(texts.length > 1 ? [["", "all"]] : []), ...named(texts)];
const isChosen = (value, text) => value === "" || value === text;
const SIDES = { task: "tasks", width: "widths", depth: "depths" };
const textOf = (cell, side) => data[SIDES[side]][cell[side]];

// ---- looks ----

const FONT = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif", size: 12, color: "#1f2328" };
const FAINT = "#8a8a8a";
const GRID = "#eceef1";
const isTouch = matchMedia("(pointer: coarse)").matches;
// The buttons are named one by one: left to itself, plotly offers to upload a reader's data to its makers.
const CONFIG = {
  responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  displayModeBar: isTouch ? false : "hover",
};
const axis = (title, more = {}) => ({
  title: { text: title, standoff: 8 }, gridcolor: GRID, zeroline: false, linecolor: FAINT, ticks: "outside", tickcolor: FAINT, ticklen: 4, ...more,
});
const layout = (more) => ({
  font: FONT, margin: { l: 56, r: 12, t: 24, b: 48 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff", showlegend: false, hovermode: "closest",
  hoverlabel: { bgcolor: "#fff", bordercolor: FAINT, align: "left", font: FONT, namelength: -1 },
  dragmode: isTouch ? false : "zoom", uirevision: "kept", ...more, // on a touch screen a finger scrolls the page
});

// A logarithmic axis with ticks at 1 (and 3, if the range is short), written as the tables write rates.
function rateAxis(rates) {
  const low = Math.min(...rates) / 1.25, high = Math.max(...rates) * 1.25;
  const digits = high / low > 80 ? [1] : [1, 3];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const digit of digits) if (digit * 10 ** power >= low && digit * 10 ** power <= high) ticks.push(digit * 10 ** power);
  const shown = ticks.length ? ticks : [rates[0]];
  return axis("learning rate", {
    type: "log", range: [Math.log10(low), Math.log10(high)], tickvals: shown, ticktext: shown.map(rateText), showgrid: false,
  });
}

function bandTrace(x, low, high, colour) {
  return {
    x: [...x, ...[...x].reverse()], y: [...high, ...[...low].reverse()], fill: "toself", fillcolor: colour + "22", mode: "lines",
    line: { width: 0 }, hoverinfo: "skip", type: "scatter",
  };
}

const runText = ([id, seed, status, score]) =>
  `seed ${safe(seed)}: ${score === null ? status : scoreText(score)}${status === "diverged" ? " (diverged)" : ""} &nbsp;run ${safe(id)}`;

// The runs of one rate, as a hover shows them; the one pointed at, if any, stands out.
function runList(rate, own, most = 10) {
  const lines = rate.runs.slice(0, most).map((run) => (run === own ? `<b>${runText(run)}</b>` : runText(run)));
  if (rate.runs.length > most) lines.push(`and ${rate.runs.length - most} more runs`);
  return lines.join("<br>");
}

// ---- legends: one button per label, which shows or hides it everywhere ----

function swatch({ colour, symbol, dash }) {
  const dashes = { solid: "", dash: "5 3", dashdot: "5 2 1 2", dot: "1.5 2" };
  const shapes = {
    circle: "M12 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0", square: "M12.5 2.5h7v7h-7z", diamond: "M16 1l5 5l-5 5l-5-5z", "triangle-up": "M16 1l5 9h-10z",
    "triangle-down": "M16 11l5-9h-10z", cross: "M14.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z", hexagon: "M16 1l4.5 2.5v5L16 11l-4.5-2.5v-5z",
  };
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [tag, attributes] of [
    ["path", { d: "M0 6H32", stroke: colour, "stroke-width": 2, "stroke-dasharray": dashes[dash] }],
    ["path", { d: shapes[symbol], fill: colour, stroke: "#fff", "stroke-width": 0.8 }],
  ]) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    picture.append(part);
  }
  for (const [name, value] of Object.entries({ viewBox: "0 0 32 12", width: 32, height: 12, "aria-hidden": "true" })) picture.setAttribute(name, value);
  return picture;
}

function drawLegends() {
  for (const legend of document.querySelectorAll(".legend")) {
    legend.replaceChildren(
      ...data.labels.map((label) => {
        const button = element("button", {
          type: "button", "aria-pressed": String(!hiddenLabels.has(label.name)), title: "click: show or hide; double click: only this one",
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
      }),
    );
  }
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

// One plot per key in a container; plots that are still wanted are updated in place and keep their zoom.
function plotInto(container, plots) {
  const wanted = new Set(plots.map((plot) => plot.key));
  for (const old of [...container.children])
    if (!wanted.has(old.dataset.key)) {
      Plotly.purge(old.lastElementChild);
      old.remove();
    }
  // All boxes stand before the first plot is drawn: a plot takes the width it finds.
  const boxes = plots.map((plot, place) => {
    const known = [...container.children].find((child) => child.dataset.key === plot.key);
    const box = known ?? element("figure", { "data-key": plot.key }, element("figcaption"), element("div", { class: "plot" }));
    if (container.children[place] !== box) container.insertBefore(box, container.children[place] ?? null);
    box.firstElementChild.textContent = plot.title;
    box.lastElementChild.style.height = `${plot.height}px`;
    return box;
  });
  container.classList.toggle("single", plots.length === 1);
  plots.forEach((plot, place) => {
    const saved = { format: "svg", filename: plot.title.replace(/[^\w.-]+/g, "-") };
    Plotly.react(boxes[place].lastElementChild, plot.traces, plot.layout, { ...CONFIG, toImageButtonOptions: saved });
  });
}

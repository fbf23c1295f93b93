// What all plots share: the data, numbers and names as text, and the reader's choices.
let data;
const COLOURS = {}; // of the page, light or dark as the reader's system is
const darkScheme = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
const hiddenLabels = new Set(); // by name, so that a live update keeps them

function applyScheme() {
  const scheme = darkScheme.matches ? "dark" : "light";
  Object.assign(COLOURS, data.colours[scheme]);
  for (const label of data.labels) label.colour = label[scheme];
}

function readData(text) {
  data = JSON.parse(text);
  applyScheme();
}
readData(byId("data").textContent);

// Plotly reads a little HTML in its texts: a name must mean nothing there.
const safe = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const rateText = (rate) => {
  const [digits, power] = rate.toExponential(2).split("e");
  return `${Number(digits)}e${Number(power)}`;
};
const scoreText = (score) => (score < 1 ? Math.min(score, 0.999).toFixed(3) : "1.000");
const layers = (depth) => `${data.depths[depth]} layer${data.depths[depth] === "1" ? "" : "s"}`;
const distinct = (values) => [...new Set(values)];
const labelOf = (cell) => data.labels[cell.label];
const isShown = (cell) => !hiddenLabels.has(labelOf(cell).name);
const bestRate = (cell) => (cell.best === null ? null : cell.rates[cell.best]);
// Where every run diverged there is no best rate to speak of, though there is a score.
const isTrainable = (cell) =>
  (bestRate(cell)?.runs ?? []).some((run) => run[3] !== null && run[2] !== "diverged");
const scoreNames = (cells) =>
  distinct(cells.map((cell) => data.scoreNames[cell.score] ?? cell.score)).join(" / ");

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const runText = ([id, seed, status, score]) => {
  const found = score === null ? status : scoreText(score);
  const diverged = status === "diverged" ? " (diverged)" : "";
  return `seed ${safe(seed)}: ${found}${diverged} &nbsp;run ${safe(id)}`;
};

// The runs of one rate, as a hover shows them; the one pointed at, if any, stands out.
function runList(rate, own, most = 10) {
  const lines = rate.runs
    .slice(0, most)
    .map((run) => (run === own ? `<b>${runText(run)}</b>` : runText(run)));
  if (rate.runs.length > most) lines.push(`and ${rate.runs.length - most} more runs`);
  return lines.join("<br>");
}

// ---- choices ----

// Fill a select with [value, text] pairs and return what is chosen; a single option is no choice
// and is not shown.
function offer(id, options, preferred) {
  const select = byId(id);
  const before = select.dataset.filled ? select.value : preferred;
  const isOffered = options.some(([value]) => String(value) === String(before));
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
  select.value = isOffered ? before : options[0]?.[0] ?? "";
  select.dataset.filled = "yes";
  select.closest("label").hidden = options.length < 2;
  return select.value;
}

const offerBand = (id) =>
  offer(id, [...data.bands.map((kind, index) => [index, kind]), ["none", "none"]], 0);

// Choices go by name: a live update may bring a new width, and places in a list would shift.
const named = (texts) => texts.map((text) => [text, text]);
const withAll = (texts) => [...(texts.length > 1 ? [["", "all"]] : []), ...named(texts)];
const isChosen = (value, text) => value === "" || value === text;
const SIDES = { task: "tasks", width: "widths", depth: "depths" };
const textOf = (cell, side) => data[SIDES[side]][cell[side]];

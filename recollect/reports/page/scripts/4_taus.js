// The width of the window against tau: a panel per task, width and depth, a line per mixer.
const isBound = ([, , isOpen]) => isOpen;

function tausHover(cell, [tau, decades, isOpen, low, high]) {
  const bound = isOpen ? "at least " : "";
  const spread = low === null ? "" : `<br>with other seeds (95 %): ${low} to ${high}`;
  const name = safe(labelOf(cell).name);
  return `<b>${name}</b>: W(${tau}) is ${bound}${decades.toFixed(2)} decades${spread}`;
}

function tausBand(cell) {
  const points = cell.taus.filter(([, , , low]) => low !== null);
  const x = points.map(([tau]) => tau);
  return {
    type: "scatter",
    mode: "lines",
    x: [...x, ...[...x].reverse()],
    y: [...points.map((point) => point[4]), ...points.map((point) => point[3]).reverse()],
    fill: "toself",
    fillcolor: labelOf(cell).colour + "22",
    line: { width: 0 },
    hoverinfo: "skip",
  };
}

function tausLine(cell) {
  const { name, colour, symbol, dash } = labelOf(cell);
  const hollow = cell.taus.map((point) => (isBound(point) ? COLOURS.paper : colour));
  return {
    type: "scatter",
    mode: "lines+markers",
    name,
    x: cell.taus.map(([tau]) => tau),
    y: cell.taus.map(([, decades]) => decades),
    hoverinfo: "text",
    hovertext: cell.taus.map((point) => tausHover(cell, point)),
    line: { color: colour, dash, width: data.lineWidth },
    marker: { symbol, size: 7, color: hollow, line: { color: colour, width: 1.2 } },
  };
}

function tausPanel([key, cells]) {
  const shown = cells.filter(isShown);
  return {
    key,
    title: panelTitle(cells[0]),
    height: 300,
    traces: [...shown.map(tausBand), ...shown.map(tausLine)],
    layout: layout({
      xaxis: axis("τ, the score that counts as solved", { range: [0.48, 1.01], showgrid: false }),
      yaxis: axis("W(τ), decades", { rangemode: "tozero" }),
      shapes: [
        guide(0, {}, { xref: "x", x0: data.tau, x1: data.tau, yref: "paper", y0: 0, y1: 1 }),
      ],
    }),
  };
}

pictures.push({
  section: byId("taus"),
  prepare() {
    const solved = data.cells.filter((cell) => cell.taus.some(([, decades]) => decades > 0));
    this.panels = panelsOf(solved).slice(0, MAX_PANELS);
    return this.panels.length > 0;
  },
  draw() {
    plotInto(byId("taus-plots"), this.panels.map(tausPanel));
  },
});

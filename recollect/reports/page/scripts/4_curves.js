// Test loss and score against step for one cell, coloured from low to high rate, with the losses at which a model may rest.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44]];

// The palest end of the scale is left out: it would not show on white.
function rateColour(share) {
  const place = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1);
  const left = VIRIDIS[Math.floor(place)], right = VIRIDIS[Math.ceil(place)];
  return `rgb(${left.map((value, index) => Math.round(value + (right[index] - value) * (place % 1))).join(",")})`;
}

const hasCurve = (cell) => cell.rates.some((rate) => rate.runs.some((run) => run[4]));
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

pictures.push({
  section: byId("curves"),
  prepare() {
    const cells = data.cells.filter(hasCurve);
    if (!cells.length) return false;
    const name = offer("curves-cell", named(cells.map((cell) => cell.name)), cells[0].name);
    this.cell = cells.find((cell) => cell.name === name);
    const rates = this.cell.rates.filter((rate) => rate.runs.some((run) => run[4]));
    const best = bestRate(this.cell);
    const options = [["all", "all"], ...(best ? [["best", `best (${rateText(best.lr)})`]] : []), ...rates.map((rate) => [rate.lr, rateText(rate.lr)])];
    this.rate = offer("curves-rate", rates.length > 1 ? options : [["all", "all"]], "all");
    return true;
  },
  draw() {
    const { cell } = this;
    const all = cell.rates.filter((rate) => rate.runs.some((run) => run[4]));
    const wanted = this.rate === "all" ? all : this.rate === "best" ? [bestRate(cell)] : all.filter((rate) => rate.lr === Number(this.rate));
    const logs = all.map((rate) => Math.log10(rate.lr));
    const low = Math.min(...logs), span = Math.max(...logs) - low;
    const colour = (lr) => rateColour(span ? (Math.log10(lr) - low) / span : 0.3);
    const traces = [], starts = [];
    for (const rate of wanted)
      for (const run of rate.runs.filter((candidate) => candidate[4])) {
        const [which, losses, scores] = run[4];
        const steps = data.steps[which];
        const head = `<b>rate ${rateText(rate.lr)}</b>, seed ${safe(run[1])}${run[2] === "diverged" ? ", diverged" : ""}<br>run ${safe(run[0])}<br>`;
        const hovertext = steps.map((step, place) => `${head}step ${step.toLocaleString("en")}: loss ${losses[place] ?? "not finite"}, score ${scores[place] === null ? "none" : scoreText(scores[place])}`);
        const look = { type: "scatter", mode: steps.length > 1 ? "lines" : "markers", x: steps, hoverinfo: "text", hovertext, line: { color: colour(rate.lr), width: 1.4 }, marker: { color: colour(rate.lr), size: 6 } };
        traces.push({ ...look, y: losses, yaxis: "y" }, { ...look, y: scores, yaxis: "y2" });
        if (losses[0] !== null) starts.push(losses[0]);
      }
    if (span) traces.push(rateBar(all.map((rate) => rate.lr), low, span));
    const top = starts.length && median(starts) > 0 ? 1.3 * median(starts) : 1;
    const levels = Object.entries(cell.levels).filter(([, level]) => level < top);
    const line = (yref, y, dash) => ({ type: "line", layer: "below", xref: "paper", x0: 0, x1: 1, yref, y0: y, y1: y, line: { color: FAINT, width: 1, dash } });
    plotInto(byId("curves-plots"), [{
      key: "curves", title: cell.name, height: 560, traces,
      layout: layout({
        uirevision: `${cell.name} ${this.rate}`,
        xaxis: axis("step", { anchor: "y2", rangemode: "tozero", showgrid: false }),
        yaxis: axis("test loss", { domain: [0.53, 1], range: [0, top] }),
        yaxis2: axis(scoreNames[cell.score] ?? cell.score, { domain: [0, 0.47], range: [-0.03, 1.03] }),
        shapes: [...levels.map(([, level]) => line("y", level, "dash")), line("y2", cell.chance, "dot")],
        annotations: levels.map(([name, level]) => ({ text: `${safe(name)} = ${level.toFixed(2)}`, xref: "paper", x: 1, xanchor: "right", yref: "y", y: level, yanchor: "bottom", showarrow: false, font: { ...FONT, size: 11, color: "#5b636d" }, bgcolor: "rgba(255,255,255,.75)", borderpad: 0 })),
      }),
    }]);
  },
});

function rateBar(rates, low, span) {
  const shown = rates.length <= 9 ? rates : rates.filter((_, place) => place % Math.ceil(rates.length / 9) === 0);
  const scale = [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1].map((share) => [share, rateColour(share)]);
  return {
    type: "scatter", mode: "markers", x: [null], y: [null], hoverinfo: "skip",
    marker: {
      color: [low], cmin: low, cmax: low + span, colorscale: scale, showscale: true,
      colorbar: { title: { text: "rate", side: "top" }, thickness: 10, outlinewidth: 0, tickvals: shown.map(Math.log10), ticktext: shown.map(rateText), len: 1, x: 1.01 },
    },
  };
}

// Test loss and score against step for one cell, coloured from low to high rate, with the losses at
// which a model may rest.
const MAX_TICKS = 9; // of the bar that says which colour is which rate

const rateColour = (share) => between(COLOURS.rates, share);
const isCurve = (run) => run[4];
const ratesWithCurves = (cell) => cell.rates.filter((rate) => rate.runs.some(isCurve));
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

function curveTraces(rate, run, color) {
  const [id, seed, status, , [which, losses, scores]] = run;
  const steps = data.steps[which];
  const diverged = status === "diverged" ? ", diverged" : "";
  const head =
    `<b>rate ${rateText(rate.lr)}</b>, seed ${safe(seed)}${diverged}<br>run ${safe(id)}<br>`;
  const atStep = (step, place) => {
    const loss = losses[place] ?? "not finite";
    const score = scores[place] === null ? "none" : scoreText(scores[place]);
    return `${head}step ${step.toLocaleString("en")}: loss ${loss}, score ${score}`;
  };
  const look = {
    type: "scatter",
    mode: steps.length > 1 ? "lines" : "markers",
    x: steps,
    hoverinfo: "text",
    hovertext: steps.map(atStep),
    line: { color, width: 1.4 },
    marker: { color, size: 6 },
  };
  return [
    { ...look, y: losses, yaxis: "y" },
    { ...look, y: scores, yaxis: "y2" },
  ];
}

// A point that is not drawn, with the bar of colours beside the plot.
function rateBar(rates, low, span) {
  const every = Math.ceil(rates.length / MAX_TICKS);
  const shown = rates.filter((_, place) => place % every === 0);
  const shares = COLOURS.rates.map((_, place) => place / (COLOURS.rates.length - 1));
  return {
    type: "scatter",
    mode: "markers",
    x: [null],
    y: [null],
    hoverinfo: "skip",
    marker: {
      color: [low],
      cmin: low,
      cmax: low + span,
      colorscale: shares.map((share) => [share, rateColour(share)]),
      showscale: true,
      colorbar: {
        // A low second line keeps the word above the uppermost tick's label.
        title: { text: 'rate<br><span style="font-size: 6px"> </span>', side: "top" },
        thickness: 10,
        outlinewidth: 0,
        tickvals: shown.map(Math.log10),
        ticktext: shown.map(rateText),
        len: 1,
        x: 1.01,
      },
    },
  };
}

const levelName = ([name, level]) => ({
  text: `${safe(name)} = ${level.toFixed(2)}`,
  xref: "paper",
  x: 1,
  xanchor: "right",
  yref: "y",
  y: level,
  yanchor: "bottom",
  showarrow: false,
  font: font({ size: 11, color: COLOURS.soft }),
  bgcolor: COLOURS.paper + "bf",
  borderpad: 0,
});

pictures.push({
  section: byId("curves"),
  prepare() {
    const cells = data.cells.filter((cell) => ratesWithCurves(cell).length);
    if (!cells.length) return false;
    const name = offer("curves-cell", named(cells.map((cell) => cell.name)), cells[0].name);
    this.cell = cells.find((cell) => cell.name === name);
    const rates = ratesWithCurves(this.cell);
    const best = bestRate(this.cell);
    const all = [["all", "all"]];
    const options = [
      ...all,
      ...(best ? [["best", `best (${rateText(best.lr)})`]] : []),
      ...rates.map((rate) => [rate.lr, rateText(rate.lr)]),
    ];
    this.rate = offer("curves-rate", rates.length > 1 ? options : all, "all");
    return true;
  },
  chosenRates() {
    const all = ratesWithCurves(this.cell);
    if (this.rate === "all") return all;
    if (this.rate === "best") return [bestRate(this.cell)];
    return all.filter((rate) => rate.lr === Number(this.rate));
  },
  draw() {
    const { cell } = this;
    const rates = ratesWithCurves(cell).map((rate) => rate.lr);
    const logs = rates.map(Math.log10);
    const low = Math.min(...logs), span = Math.max(...logs) - low;
    const colour = (lr) => rateColour(span ? (Math.log10(lr) - low) / span : 0.3);
    const drawn = this.chosenRates().flatMap((rate) =>
      rate.runs.filter(isCurve).map((run) => [rate, run]),
    );
    const traces = drawn.flatMap(([rate, run]) => curveTraces(rate, run, colour(rate.lr)));
    if (span) traces.push(rateBar(rates, low, span));
    const starts = drawn.map(([, run]) => run[4][1][0]).filter((loss) => loss !== null);
    const top = starts.length && median(starts) > 0 ? 1.3 * median(starts) : 1;
    const levels = Object.entries(cell.levels).filter(([, level]) => level < top);
    const plot = {
      key: "curves",
      title: cell.name,
      height: 560,
      traces,
      layout: layout({
        uirevision: `${cell.name} ${this.rate}`,
        xaxis: axis("step", { anchor: "y2", rangemode: "tozero", showgrid: false }),
        yaxis: axis("test loss", { domain: [0.53, 1], range: [0, top] }),
        yaxis2: axis(scoreNames([cell]), { domain: [0, 0.47], range: [-0.03, 1.03] }),
        shapes: [
          ...levels.map(([, level]) => guide(level, { dash: "dash" }, { yref: "y" })),
          ...floorGuides([cell], { yref: "y2" }),
        ],
        annotations: levels.map(levelName),
      }),
    };
    plotInto(byId("curves-plots"), [plot]);
  },
});

// Learning curves of all mixers at their best rates, side by side: train loss, test loss, score.
const MAX_BEST = 8; // panels, of three plots each
const PARTS = {
  "train loss": ([, , , losses]) => losses,
  "test loss": ([, losses]) => losses,
  score: ([, , scores]) => scores,
};

const bestCurves = (cell) => (bestRate(cell)?.runs ?? []).filter((run) => run[4]?.length === 4);

// The run with the median score is drawn in full, the others faint.
function bestTraces(cell, part) {
  const { name, colour, dash } = labelOf(cell);
  const runs = bestCurves(cell).sort((a, b) => a[3] - b[3]);
  const median = runs[Math.floor((runs.length - 1) / 2)];
  return runs.map((run) => {
    const steps = data.steps[run[4][0]], values = PARTS[part](run[4]);
    const head = `<b>${safe(name)}</b> at ${rateText(bestRate(cell).lr)}, seed ${safe(run[1])}`;
    const isFull = run === median;
    return {
      type: "scatter",
      mode: "lines",
      ...(isFull ? { name } : {}),
      x: steps,
      y: values,
      opacity: isFull ? 1 : 0.3,
      hoverinfo: "text",
      hovertext: steps.map((step, place) => {
        const value = values[place] ?? "not finite";
        return `${head}<br>step ${step.toLocaleString("en")}: ${part} ${value}`;
      }),
      line: { color: colour, dash, width: isFull ? data.lineWidth : 1 },
    };
  });
}

// Logarithmic, since some are solved ten times sooner than others; ticks at 1 and 3.
function stepAxis(cells) {
  const steps = cells.flatMap((cell) => bestCurves(cell).flatMap((run) => data.steps[run[4][0]]));
  const [low, high] = [Math.min(...steps), Math.max(...steps)];
  const ticks = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((power) => [10 ** power, 3 * 10 ** power]);
  const shown = ticks.filter((tick) => tick >= low / 1.1 && tick <= high * 1.1);
  const text = (step) => (step < 1000 ? `${step}` : `${step / 1000}k`);
  return axis("step", {
    type: "log",
    showgrid: false,
    tickvals: shown,
    ticktext: shown.map(text),
  });
}

function bestPlot([key, cells], part, isNamed) {
  const shown = cells.filter(isShown);
  const isScore = part === "score";
  const levels = isScore ? [] : Object.values(cells[0].levels);
  return {
    key: `${key} ${part}`,
    title: (isNamed ? `${panelTitle(cells[0])}: ` : "") + (isScore ? scoreNames(cells) : part),
    height: 260,
    traces: shown.flatMap((cell) => bestTraces(cell, part)),
    layout: layout({
      xaxis: stepAxis(shown),
      yaxis: isScore ? axis("", { range: [-0.03, 1.03] }) : axis("", { rangemode: "tozero" }),
      shapes: isScore
        ? floorGuides(cells)
        : levels.map((level) => guide(level, { dash: "dash" })),
    }),
  };
}

pictures.push({
  section: byId("best"),
  prepare() {
    const panels = panelsOf(data.cells.filter((cell) => bestCurves(cell).length));
    this.panels = panels.slice(0, MAX_BEST);
    const cut = `The first ${MAX_BEST} of ${panels.length} tasks and sizes are drawn.`;
    byId("best-cut").textContent = panels.length > MAX_BEST ? cut : "";
    return panels.length > 0;
  },
  draw() {
    const isNamed = this.panels.length > 1;
    const plots = this.panels.flatMap((panel) =>
      Object.keys(PARTS).map((part) => bestPlot(panel, part, isNamed)),
    );
    plotInto(byId("best-plots"), plots);
  },
});

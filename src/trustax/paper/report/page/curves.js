// Learning curves of the selected methods on a task, as mean and band or one line per seed.

function curvesPage(place, data) {
  if (data.curves.length === 0) {
    place.append(notice("There are no curves yet. To create some, run:", ...data.commands));
    return { show() {} };
  }
  const tasks = [...new Set(data.curves.map((curve) => curve.task))];
  const state = {
    task: tasks[0], protocol: data.protocol, measure: "return", seeds: "mean", smoothing: 0, paper: true,
  };
  const chart = element("div", { id: "curve-chart", class: "chart large", role: "img" });
  const top = element("div", { class: "controls" });
  const side = element("div", { class: "side" });
  const caption = element("p", { class: "faint" });
  const ends = element("div", { class: "ends" });
  place.append(top, element("div", { class: "beside" }, side, element("div", {}, caption, chart, element("p", { class: "faint" }, ZOOMING)), ends));

  const refresh = () => {
    const chosen = state.curves.filter((curve) => state.selected.has(curve.label));
    const traces = chosen.flatMap((curve) => tracesOf(curve, state));
    caption.textContent = explanation(chosen, state);
    chart.setAttribute("aria-label", `${state.task}: ${caption.textContent} The table below has the final values.`);
    const isCrowded = traces.filter((trace) => trace.meta === "curve").length > 8;
    const title = state.measure === "success" ? "success rate" : "episode return";
    const range = [0, 1.02 * Math.max(...state.curves.map((curve) => curve.steps.at(-1)))];
    draw(chart, traces, {
      x: { title: "environment steps per seed", range, ticks: 8 }, y: { title, ticks: 8 }, closest: isCrowded,
    });
    ends.replaceChildren(finalTable(chosen, state));
  };
  const change = (name, next = refresh) => (value) => {
    state[name] = value;
    next();
  };
  // Other tasks and protocols have other methods.
  const rebuild = () => {
    const has = (protocol) => data.curves.some((curve) => curve.task === state.task && curve.protocol === protocol);
    const protocols = data.protocols.filter(({ name }) => has(name)).map(({ name }) => [name, name]);
    if (!has(state.protocol)) [[state.protocol]] = protocols;
    state.curves = data.curves.filter((curve) => curve.task === state.task && curve.protocol === state.protocol);
    state.styles = lineStyles(state.curves, data.palette);
    state.selected = bestOfEach(state.curves);
    const hasSuccess = state.curves.some((curve) => curve.successes !== null);
    if (!hasSuccess) state.measure = "return";
    const measures = [["return", "return"], ["success", "success rate"]];
    top.replaceChildren(
      choice("Task", tasks.map((task) => [task, task]), state.task, change("task", rebuild)),
      alternatives("Protocol", "protocol", protocols, state.protocol, change("protocol", rebuild)),
      ...(hasSuccess ? [alternatives("Measure", "measure", measures, state.measure, change("measure"))] : []),
      alternatives("Seeds", "seeds", [["mean", "mean and band"], ["each", "each"]], state.seeds, change("seeds")),
    );
    side.replaceChildren(
      slider(state, refresh),
      checkbox(state.paper, change("paper"), "the paper’s final values"),
      methodList(state, refresh),
    );
    refresh();
  };
  return {
    show(task) {
      if (tasks.includes(task)) state.task = task;
      if (task || !state.curves) rebuild();
      else refresh();
    },
  };
}

// The best setting of each method: the highest final value among those trained longest.
function bestOfEach(curves) {
  const best = new Map();
  for (const curve of curves) {
    const known = best.get(curve.family);
    if (!known || isBetter(curve, known)) best.set(curve.family, curve);
  }
  return new Set([...best.values()].map(({ label }) => label));
}

function isBetter(curve, other) {
  const [length, otherLength] = [curve.steps.at(-1), other.steps.at(-1)];
  return length === otherLength ? finalOf(curve).mean > finalOf(other).mean : length > otherLength;
}

function slider(state, refresh) {
  const words = () => (state.smoothing ? `${state.smoothing}% of the run` : "none");
  const output = element("output", {}, words());
  const smooth = () => {
    state.smoothing = Number(input.value);
    output.textContent = words();
    refresh();
  };
  const input = element("input", { type: "range", min: 0, max: 20, step: 1, value: state.smoothing, oninput: smooth });
  return element("label", { class: "control" }, element("span", {}, "Smoothing: ", output), input);
}

function checkbox(on, changed, ...words) {
  const box = element("input", { type: "checkbox", checked: on, onchange: () => changed(box.checked) });
  return element("label", { class: "tick" }, box, ...words);
}

function methodList(state, refresh) {
  const labels = state.curves.map((curve) => curve.label);
  const list = element("div", { class: "list" });
  const show = () => list.replaceChildren(...labels.map((label) => {
    const changed = (on) => {
      state.selected[on ? "add" : "delete"](label);
      refresh();
    };
    return checkbox(state.selected.has(label), changed, swatch(state.styles.get(label)), label);
  }));
  const sets = { "best of each": () => bestOfEach(state.curves), all: () => new Set(labels), none: () => new Set() };
  const buttons = Object.entries(sets).map(([words, chosen]) => {
    const choose = () => {
      state.selected = chosen();
      show();
      refresh();
    };
    return element("button", { type: "button", onclick: choose }, words);
  });
  show();
  return element("fieldset", { class: "methods" },
    element("legend", {}, "Methods"), element("div", { class: "buttons" }, ...buttons), list);
}

function tracesOf(curve, state) {
  const { color, dash } = state.styles.get(curve.label);
  const rows = valuesOf(curve, state.measure).map((row) => smoothed(curve.steps, row, state.smoothing / 100));
  if (rows.length === 0) return [];
  const { mean, deviation } = statistics(rows);
  const line = (y, extra) => ({
    kind: curve.steps.length === 1 ? "points" : "line", meta: "curve", name: curve.label, x: curve.steps, y,
    color: shade(color), width: 2.2, dash, says: (index) => number(y[index]), ...extra,
  });
  const traces = state.seeds === "each"
    ? rows.map((row, seed) => line(row, { name: `${curve.label}, ${seed + 1}`, width: 1.3, opacity: 0.75 }))
    : [line(mean, { says: (index) => spread(mean[index], rows.length > 1 ? deviation[index] : null) })];
  if (state.seeds === "mean" && rows.length > 1) traces.unshift(band(curve.steps, mean, deviation, color));
  if (state.paper && state.measure === "return" && curve.paper) traces.push(paperTrace(curve, state));
  return traces;
}

function valuesOf(curve, measure) {
  return measure === "success" ? curve.successes ?? [] : curve.values;
}

function finalOf(curve, measure = "return") {
  const { mean, deviation } = statistics(valuesOf(curve, measure).map((row) => [row.at(-1)]));
  return { mean: mean[0], deviation: deviation[0] };
}

// The paper's final value: a dashed line that ends in a diamond with the paper's standard deviation.
function paperTrace(curve, state) {
  const { mean, deviation } = curve.paper;
  const color = shade(state.styles.get(curve.label).color);
  const last = Math.max(...state.curves.map(({ steps }) => steps.at(-1)));
  return {
    kind: "line", meta: "paper", name: `${curve.label}, paper`, x: [0, last], y: [mean, mean],
    color, width: 1.2, dash: "dash", end: deviation, says: () => spread(mean, deviation),
  };
}

// The mean over a window around each point, as a fraction of the run; points without a value stay empty.
function smoothed(steps, row, share) {
  const radius = (share * steps.at(-1)) / 2;
  return row.map((value, index) => {
    if (value === null) return null;
    return average(row.filter((other, place) => other !== null && Math.abs(steps[place] - steps[index]) <= radius));
  });
}

// Mean and standard deviation over the seeds that have a value.
function statistics(rows) {
  const columns = rows[0].map((_, point) => rows.map((row) => row[point]).filter((value) => value !== null));
  const mean = columns.map(average);
  const deviation = columns.map((values, point) => {
    const variance = average(values.map((value) => (value - mean[point]) ** 2));
    return variance === null ? null : Math.sqrt(variance);
  });
  return { mean, deviation };
}

function average(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function explanation(curves, state) {
  if (curves.length === 0) return "No method is selected.";
  const amounts = curves.map((curve) => curve.values.length);
  const [fewest, most] = [Math.min(...amounts), Math.max(...amounts)];
  const seeds = most === 1 ? "one seed" : `${fewest === most ? most : `${fewest} to ${most}`} seeds`;
  const isSingle = state.seeds === "each" || most === 1;
  const parts = [isSingle ? `a line for each of ${seeds}` : `mean over ${seeds}, band: ± one standard deviation`];
  if (state.paper && curves.some((curve) => curve.paper)) parts.push("dashed with a diamond: final value in the paper");
  const shorter = curves.find((curve) => curve.steps.at(-1) < curve.paper_steps * 0.95);
  if (shorter) parts.push(`some runs are shorter than the paper’s ${count(shorter.paper_steps)} steps`);
  const words = parts.join(" · ");
  return `${words[0].toUpperCase()}${words.slice(1)}.`;
}

function finalTable(curves, state) {
  const rows = curves.filter((curve) => valuesOf(curve, state.measure).length).map((curve) => {
    const { mean, deviation } = finalOf(curve, state.measure);
    const paper = state.measure === "return" ? curve.paper : null;
    const seeds = curve.values.length;
    return [
      { content: curve.label, order: curve.label, head: true },
      { content: spread(mean, seeds > 1 ? deviation : null), order: mean },
      { content: paper ? spread(paper.mean, paper.deviation) : "", order: paper?.mean ?? null },
      { content: String(seeds), order: seeds },
      { content: count(curve.steps.at(-1)), order: curve.steps.at(-1) },
    ];
  });
  const caption = `Final values: ${state.task}, ${state.protocol}`;
  return sortable(caption, ["method", "final", "paper", "seeds", "steps"], rows);
}

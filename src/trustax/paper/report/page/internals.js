// The internals of MCPO: its memory, the attention over it, and the two trust regions.

const PANELS = [
  { title: "α: weight of the virtual trust region", names: ["alpha"] },
  { title: "β: KL cost", names: ["beta"] },
  { title: "KL divergences", names: ["kl_old_new", "kl_old_virtual"], logarithmic: true },
  { title: "Attended rank (0: newest)", names: ["attended_rank"], jumps: true },
  { title: "Attended age, in updates", names: ["attended_age"], jumps: true },
  { title: "Attention entropy, in nats", names: ["attention_entropy"] },
  { title: "Writes per iteration", names: ["writes"] },
  { title: "Memory filled", names: ["memory_filled"] },
];
const DISTANCES = { kl_old_new: "D(θ_old, θ)", kl_old_virtual: "D(θ_old, ψ)" };

function internalsPage(place, data) {
  if (data.insides.length === 0) {
    place.append(notice("There are no runs of MCPO yet. To create some, run:", ...data.commands));
    return { show() {} };
  }
  const state = { run: data.insides[0], other: null };
  const top = element("div", { class: "controls" });
  const key = element("ul", { class: "key" });
  const caption = element("p", { class: "faint" });
  const charts = PANELS.map(({ title }) => element("div", { class: "chart", role: "img", "aria-label": title }));
  const panels = charts.map((chart) => element("figure", { class: "card" }, element("figcaption"), chart));
  place.append(top, caption, key, element("div", { class: "panels" }, ...panels));

  const refresh = () => {
    const runs = [state.run, state.other].filter((run) => run !== null);
    caption.textContent = state.run.words;
    key.replaceChildren(...runs.map((run, index) =>
      element("li", {}, swatch({ color: data.palette[index], dash: "solid" }), run.label)));
    PANELS.forEach((panel, index) => {
      panels[index].hidden = !runs.some((run) => panel.names.some((name) => name in run.series));
      if (panels[index].hidden) return;
      panels[index].firstChild.replaceWith(panelTitle(panel, runs, data.palette));
      drawPanel(charts[index], panel, runs, data.palette);
    });
  };
  const rebuild = () => {
    // Only runs with the same unit can share an axis.
    const alike = data.insides.filter((run) => run.unit === state.run.unit && run !== state.run);
    if (!alike.includes(state.other)) state.other = null;
    const named = (run) => [String(data.insides.indexOf(run)), run.label];
    const change = (name, next) => (value) => {
      state[name] = data.insides[value] ?? null;
      next();
    };
    const others = [["none", "nothing"], ...alike.map(named)];
    const chosen = state.other ? named(state.other)[0] : "none";
    top.replaceChildren(
      choice("Run", data.insides.map(named), named(state.run)[0], change("run", rebuild)),
      choice("Compare with", others, chosen, change("other", refresh)),
    );
    refresh();
  };
  return { show: () => (top.firstChild ? refresh() : rebuild()) };
}

// The two distances of one run differ in color. With two runs, each has its own color, and the second distance is dashed.
function lineStyle(run, place, runs, palette) {
  return runs.length === 1 ? { color: palette[place], dash: "solid" } : { color: palette[run], dash: DASHES[place] };
}

function panelTitle({ title, names }, runs, palette) {
  const keys = names.map((name, place) => {
    const style = runs.length === 1 ? lineStyle(0, place, runs, palette) : { color: "#000000", dash: DASHES[place] };
    return element("span", {}, swatch(style), DISTANCES[name]);
  });
  return element("figcaption", {}, ...(keys.length > 1 ? keys : [title]));
}

function drawPanel(chart, panel, runs, palette) {
  const traces = runs.flatMap((run, index) => panel.names.flatMap((name, place) => {
    if (!(name in run.series)) return [];
    const [mean, deviation] = run.series[name];
    const { color, dash } = lineStyle(index, place, runs, palette);
    const label = [DISTANCES[name], runs.length > 1 ? run.label : null].filter(Boolean).join(" · ");
    const dense = run.unit === "updates";
    const line = {
      kind: panel.jumps && dense ? "points" : "line", meta: name, name: label, x: run.x, y: mean,
      color: shade(color), width: dense ? 1.3 : 2, dash, says: (index) => significant(mean[index]),
    };
    return deviation ? [band(run.x, mean, deviation, color, panel.logarithmic), line] : [line];
  }));
  const range = [Math.min(...runs.map(({ x }) => x[0])), Math.max(...runs.map(({ x }) => x.at(-1)))];
  const y = { log: panel.logarithmic, fromZero: !panel.logarithmic, ticks: 5 };
  draw(chart, traces, { x: { title: runs[0].unit, range, ticks: 5 }, y });
}

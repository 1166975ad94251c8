// The overview, with the status of each table and figure under both protocols, and the page of tables.

function overviewPage(place, data) {
  if (data.curves.length === 0) {
    place.append(notice("Nothing has been run yet; this page has only the paper’s numbers. To begin, run:", ...data.commands));
  }
  // Table 1 is part of the full table 1; cells in both count once.
  const total = tally(data.tables.filter(({ contained }) => !contained).flatMap(countedCells));
  const comparable = total.matches + total["differs, better"] + total["differs, worse"];
  const seeds = data.curves.reduce((sum, curve) => sum + curve.values.length, 0);
  place.append(
    element("dl", { class: "sums" },
      sum(comparable ? `${total.matches} of ${comparable}` : "none", "comparable numbers match the paper"),
      sum(String(data.curves.length), "learning curves (a method on a task)"),
      sum(String(seeds), "training runs (one per seed)"),
    ),
    element("ul", { class: "cards" }, ...data.tables.map(card), ...(data.figures.length ? [figuresCard(data)] : [])),
    legend(data),
  );
}

function sum(value, words) {
  return element("div", {}, element("dt", {}, words), element("dd", {}, value));
}

function card(table) {
  const title = element("h2", {}, element("a", { href: `#tables/${table.name}` }, table.title));
  const contents = Object.entries(table.protocols);
  const shown = table.alike ? [["both protocols", contents[0][1]]] : contents;
  const states = shown.map(([protocol, content]) => {
    const found = tally(cellsOf(table, content));
    const verdicts = Object.keys(VERDICTS).filter((verdict) => found[verdict]);
    const bar = element("div", { class: "bar", "aria-hidden": "true" });
    for (const verdict of verdicts) {
      const part = element("span", { "data-verdict": verdict });
      part.style.flexGrow = found[verdict];
      bar.append(part);
    }
    const chips = element("p", { class: "chips" });
    chips.append(...verdicts.map((verdict) => chip(verdict, `${found[verdict]} ${VERDICTS[verdict].name}`)));
    return element("div", { class: "state" }, element("h3", {}, protocol), bar, chips);
  });
  return element("li", { class: "card" }, title, ...states);
}

function figuresCard({ protocols, figures }) {
  const lines = figures.map(({ name, title, pictures }) => element("li", {},
    element("a", { href: `#figures/${name}` }, title),
    element("span", { class: "chips" }, ...protocols.map((protocol) =>
      chip(pictures[protocol.name].length ? "ran" : "not run", protocol.name)))));
  const list = element("ul", { class: "lines" }, ...lines);
  return element("li", { class: "card wide" }, element("h2", {}, "Figures"), list);
}

function legend(data) {
  const verdicts = Object.keys(VERDICTS).map((name) => element("li", {}, chip(name), ` ${VERDICTS[name].words}`));
  const protocols = data.protocols.map(({ name, words }) => element("li", {}, element("b", {}, name), ` ${words}`));
  return element("div", { class: "legend" },
    element("div", {}, element("h2", {}, "Verdicts"), element("ul", {}, ...verdicts)),
    element("div", {}, element("h2", {}, "The two protocols"), element("ul", {}, ...protocols)),
  );
}

// The cells with numbers of the paper: without our variants and without columns derived from the same runs.
function cellsOf({ counted }, { rows }) {
  return rows.filter(({ ours }) => !ours).flatMap(({ cells }) => cells.filter((_, index) => counted[index]));
}

function countedCells(table) {
  return Object.values(table.protocols).flatMap((content) => cellsOf(table, content));
}

function tally(cells) {
  const found = Object.fromEntries(Object.keys(VERDICTS).map((verdict) => [verdict, 0]));
  for (const { verdict } of cells) found[verdict] += 1;
  return found;
}

function tablesPage(place, data) {
  const shown = element("div");
  const show = (protocol) => shown.replaceChildren(...data.tables.map((table) => tableOf(table, protocol, data)));
  const names = data.protocols.map(({ name }) => [name, name]);
  const jumps = data.tables.flatMap(({ name }) => [" ", element("a", { href: `#tables/${name}` }, name)]);
  place.append(
    element("div", { class: "controls" },
      alternatives("Protocol", "table-protocol", names, data.protocol, show),
      element("p", { class: "jumps" }, ...jumps)),
    element("p", { class: "faint" }, "Each cell has our result above the paper’s. Click a column header to sort."),
    shown,
  );
  show(data.protocol);
}

function tableOf(table, protocol, data) {
  const { state, headings, notes, rows, aggregates, aggregate_headings: titles } = table.protocols[protocol];
  const lines = rows.map(({ name, ours, cells }) => [
    { content: [name, ours ? element("small", {}, "ours, not in the paper") : null], order: name, head: true },
    ...cells.map((cell) => ({ content: cellContent(cell), order: cell.order ?? null })),
  ]);
  const tasks = table.tasks.filter((task) => data.curves.some((curve) => curve.task === task));
  const links = tasks.flatMap((task) => [" ", element("a", { href: `#curves/${task}` }, task)]);
  const overAll = aggregates.map((row) =>
    row.map(([content, order], index) => ({ content, order, head: index === 0 })));
  return element("article", { id: `tables/${table.name}`, class: "table" },
    element("h2", {}, table.title),
    element("p", { class: "faint" }, state, ...(links.length ? [" Curves:", ...links] : [])),
    sortable(`${table.title}, ${protocol}`, ["method", ...headings], lines),
    ...(aggregates.length ? [sortable(`${table.title}, over all tasks`, titles, overAll)] : []),
    element("p", { class: "faint" }, notes.join(" ")),
  );
}

function cellContent({ verdict, says = "", mark = "", ours = "", seeds = "", choice = "", paper = "" }) {
  const value = element("span", {}, element("span", { class: mark }, ours), element("small", {}, seeds));
  const below = [choice, paper && `paper ${paper}`].filter(Boolean);
  return [
    element("span", { class: "line" }, value, chip(verdict, says)),
    ...below.map((words) => element("span", { class: "below" }, words)),
  ];
}

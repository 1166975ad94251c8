// Elements shared by all pages. All text is inserted as text nodes, so no name can become markup.

function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// No decimals for thousands, three below one. A standard deviation has as many decimals as its mean.
function number(value, decimals = null) {
  if (value === null) return "–";
  const size = Math.abs(value);
  const places = decimals ?? decimalsOf(size);
  const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
  return value.toLocaleString("en", digits).replace("-", "−");
}

function decimalsOf(size) {
  return size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
}

// A number with three digits.
function significant(value) {
  return value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 3 }).replace("-", "−");
}

function spread(mean, deviation) {
  if (mean === null || deviation === null) return number(mean);
  return `${number(mean)} ± ${number(deviation, decimalsOf(Math.abs(mean)))}`;
}

function count(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size * 0.9995) return `${Number((value / size).toPrecision(3))}${letter}`;
  }
  return String(value);
}

const VERDICTS = {
  matches: { symbol: "✓", name: "matches", words: "The 95 % intervals of our mean and the paper’s overlap." },
  "differs, better": { symbol: "▲", name: "better", words: "Differs: our interval lies above the paper’s." },
  "differs, worse": { symbol: "▼", name: "worse", words: "Differs: our interval lies below the paper’s." },
  short: { symbol: "…", name: "short", words: "Trained for fewer steps than in the paper." },
  ran: { symbol: "○", name: "ran", words: "Ran in full; the paper has no number to compare with." },
  "not run": { symbol: "–", name: "not run", words: "Not run yet." },
};

function chip(verdict, says = "") {
  const { symbol, name, words } = VERDICTS[verdict];
  const sign = element("span", { "aria-hidden": "true" }, symbol);
  return element("span", { class: "chip", "data-verdict": verdict, title: words }, sign, ` ${says || name}`);
}

function notice(words, ...commands) {
  const lines = commands.map((command) => element("pre", {}, element("code", {}, command)));
  return element("div", { class: "notice" }, element("p", {}, words), ...lines);
}

// A labeled drop-down list. `options` are pairs of value and text.
function choice(label, options, chosen, changed) {
  const list = element("select", { onchange: () => changed(list.value) });
  for (const [value, text] of options) list.append(element("option", { value, selected: value === chosen }, text));
  return element("label", { class: "control" }, element("span", {}, label), list);
}

// Radio buttons side by side.
function alternatives(label, name, options, chosen, changed) {
  const buttons = options.map(([value, text]) => {
    const input = element("input", {
      type: "radio", name, value, checked: value === chosen, onchange: () => changed(value),
    });
    return element("label", {}, input, element("span", {}, text));
  });
  return element("fieldset", { class: "alternatives" }, element("legend", {}, label), ...buttons);
}

// A table that is sorted by clicking a column header. `rows` are lists of { content, order }; null orders come last.
function sortable(caption, columns, rows) {
  const body = element("tbody");
  const show = (sorted) => body.replaceChildren(...sorted.map((row) => element("tr", {}, ...row.map(toCell))));
  const heads = columns.map((column, index) => {
    const sort = () => {
      const descending = head.getAttribute("aria-sort") === "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "ascending" : "descending");
      show([...rows].sort((a, b) => compare(a[index].order, b[index].order, !descending)));
    };
    const head = element("th", { scope: "col" }, element("button", { type: "button", onclick: sort }, column));
    return head;
  });
  show(rows);
  const head = element("thead", {}, element("tr", {}, ...heads));
  const table = element("table", {}, element("caption", {}, caption), head, body);
  // A wide table scrolls inside its own region, also with the keyboard.
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}

function toCell({ content, head = false }) {
  const children = Array.isArray(content) ? content : [content];
  return head ? element("th", { scope: "row" }, ...children) : element("td", {}, ...children);
}

function compare(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "string" ? a.localeCompare(b) : a - b;
  return descending ? -order : order;
}

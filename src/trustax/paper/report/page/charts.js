// Plotly charts in the style of this page: colors, lines and axes for the current theme.

const DASHES = ["solid", "dash", "dot", "dashdot"];
const DARK = window.matchMedia("(prefers-color-scheme: dark)");

function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// The last color is black, which is invisible on a dark page.
function shade(color) {
  return color === "#000000" ? themed("ink") : color;
}

function faded(color, opacity) {
  const parts = [1, 3, 5].map((start) => parseInt(shade(color).slice(start, start + 2), 16));
  return `rgba(${parts.join(", ")}, ${opacity})`;
}

// A color and a line style for each curve. Settings of one method share a color while line styles last.
function lineStyles(curves, palette) {
  const families = [...new Set(curves.map((curve) => curve.family))];
  const total = palette.length * DASHES.length;
  const taken = new Set();
  return new Map(curves.map(({ label, family }) => {
    let place = (families.indexOf(family) * DASHES.length) % total;
    while (taken.has(place) && taken.size < total) place = (place + 1) % total;
    taken.add(place);
    return [label, { color: palette[Math.floor(place / DASHES.length)], dash: DASHES[place % DASHES.length] }];
  }));
}

// A sample of a method's line, shown before its name.
function swatch({ color, dash }) {
  const gaps = { solid: "none", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
  const line = shape("line", { x1: 1, y1: 5, x2: 27, y2: 5, "stroke-width": 2.5, "stroke-dasharray": gaps[dash] });
  line.style.stroke = color === "#000000" ? "var(--ink)" : color;
  const drawing = shape("svg", { width: 28, height: 10, "aria-hidden": "true" });
  drawing.append(line);
  return drawing;
}

function shape(kind, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// One standard deviation above and below. On a log axis the band ends at a tenth of the mean.
function band(x, mean, deviation, color, logarithmic = false) {
  const known = x.map((_, index) => index).filter((index) => mean[index] !== null && deviation[index] !== null);
  const back = [...known].reverse();
  const high = (index) => mean[index] + deviation[index];
  const low = (index) => Math.max(mean[index] - deviation[index], logarithmic ? mean[index] / 10 : -Infinity);
  return {
    x: [...known, ...back].map((index) => x[index]), y: [...known.map(high), ...back.map(low)],
    mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: faded(color, 0.16), hoverinfo: "skip", meta: "band",
  };
}

function axis(title, extra = {}) {
  return {
    title: { text: plain(title), font: { size: 13 }, standoff: 8 }, automargin: true, zeroline: false, ticks: "",
    gridcolor: themed("line"), linecolor: themed("faint"), tickfont: { color: themed("faint"), size: 12 },
    ...extra,
  };
}

// Most of the page's scripts is Plotly. It is stored compressed, and unpacked when the first chart is shown.
let loading = null;

function withPlotly(use) {
  if (window.Plotly) use();
  else {
    document.body.dataset.charts = "loading";
    loading ??= unpacked(document.getElementById("plotly").textContent).then((code) => {
      document.head.append(element("script", {}, code));
      delete document.body.dataset.charts;
    });
    loading.then(use);
  }
}

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// The height of the chart comes from the style sheet.
function draw(place, traces, { x = {}, y = {}, hover = "x unified", buttons = false }) {
  const layout = {
    autosize: true, showlegend: false, hovermode: hover, dragmode: "zoom",
    margin: { l: 8, r: 12, t: 12, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", color: themed("ink") },
    hoverlabel: {
      bgcolor: themed("surface"), bordercolor: themed("line"), font: { color: themed("ink") }, namelength: -1,
    },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: themed("faint"), activecolor: themed("ink") },
    xaxis: axis("environment steps per seed", {
      showgrid: false, rangemode: "nonnegative", tickformat: "~s", hoverformat: ".3~s", nticks: 8, ...x,
    }),
    yaxis: axis("", y),
  };
  const config = {
    responsive: true, displaylogo: false, displayModeBar: buttons ? "hover" : false,
    modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  };
  withPlotly(() => Plotly.react(place, traces, layout, config));
}

// Colors and lines of the charts for the current theme.

const GAPS = { solid: "none", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };
const DASHES = Object.keys(GAPS);
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
  const line = shape("line", { x1: 1, y1: 5, x2: 27, y2: 5, "stroke-width": 2.5, "stroke-dasharray": GAPS[dash] });
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
    kind: "band", meta: "band", color: faded(color, 0.16),
    x: [...known, ...back].map((index) => x[index]), y: [...known.map(high), ...back.map(low)],
  };
}

// Line charts as SVG: axes, bands, lines and points. A chart is drawn again when its size changes.

const MARGIN = { top: 10, right: 14, bottom: 46 };
const SIZES = new ResizeObserver((changes) => {
  for (const { target } of changes) if (target.size !== sizeOf(target)) paint(target);
});

// A trace is { kind: "line" | "points" | "band", meta, name, x, y, color, says }; null in y is a gap.
// An axis is { title, range, ticks, log, fromZero }; without a range it shows all values.
// With `closest`, the pointer shows the closest value instead of all values at its place.
function draw(place, traces, { x, y, closest = false }) {
  Object.assign(place, { data: traces, axes: { x, y }, closest, zoom: {} });
  SIZES.observe(place);
  paint(place);
}

function sizeOf(place) {
  return `${place.clientWidth} ${place.clientHeight}`;
}

function paint(place) {
  place.size = sizeOf(place);
  if (place.clientWidth === 0) return; // it is hidden, and will be painted when it is shown
  const { x, y } = place.axes;
  const ranges = { x: place.zoom.x ?? x.range, y: place.zoom.y ?? extent(place.data, y) };
  const ticks = { x: ticksOf(ranges.x, x, count), y: ticksOf(ranges.y, y) };
  const left = 14 + 7 * Math.max(0, ...ticks.y.map(({ text }) => text.length)) + (y.title ? 20 : 0);
  const width = Math.max(1, place.clientWidth - left - MARGIN.right);
  const area = { left, top: MARGIN.top, width, height: place.clientHeight - MARGIN.top - MARGIN.bottom };
  const scales = {
    x: scaleOf(ranges.x, [0, area.width], x.log), y: scaleOf(ranges.y, [area.height, 0], y.log),
  };
  const chart = shape("svg", { width: place.clientWidth, height: place.clientHeight });
  // A nested drawing cuts off what is outside of it.
  const inner = shape("svg", { x: area.left, y: area.top, width: area.width, height: area.height });
  inner.append(...place.data.flatMap((trace) => marks(trace, scales)));
  chart.append(...axesOf(place, area, scales, ticks), inner);
  place.replaceChildren(chart);
  follow(place, chart, area, scales);
}

// The lowest and the highest value, with some space around them.
function extent(traces, { log = false, fromZero = false }) {
  const values = traces.flatMap(({ y, end = 0 }) =>
    y.flatMap((value) => (value === null || (log && value <= 0) ? [] : [value - end, value + end])));
  if (fromZero) values.push(0);
  if (values.length === 0) return log ? [0.1, 10] : [0, 1];
  const low = values.reduce((least, value) => Math.min(least, value));
  const high = values.reduce((most, value) => Math.max(most, value));
  if (log) return [low / 1.5, high * 1.5];
  const space = 0.05 * (high - low) || Math.abs(high) / 10 || 1;
  return [fromZero && low === 0 ? 0 : low - space, high + space];
}

// From values to pixels; `inverse` goes back.
function scaleOf([low, high], [start, end], log = false) {
  const [forth, back] = log ? [Math.log10, (value) => 10 ** value] : [(value) => value, (value) => value];
  const slope = (end - start) / (forth(high) - forth(low) || 1);
  const scale = (value) => start + (forth(value) - forth(low)) * slope;
  scale.inverse = (pixel) => back(forth(low) + (pixel - start) / slope);
  return scale;
}

function ticksOf([low, high], { ticks = 6, log = false }, words = null) {
  const powers = log ? powersWithin(low, high, ticks) : [];
  if (powers.length > 1) return powers;
  const rough = (high - low) / ticks || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5].find((factor) => factor * size >= rough) ?? 10);
  const places = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const digits = { minimumFractionDigits: places, maximumFractionDigits: places };
  const found = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) {
    const value = Number((index * step).toPrecision(12));
    found.push({ value, text: words ? words(value) : value.toLocaleString("en", digits).replace("-", "−") });
  }
  return found;
}

function powersWithin(low, high, ticks) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const every = Math.ceil((last - first + 1) / ticks);
  const small = (power) => [...String(power)].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
  const powers = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
  return powers.filter((power) => power % every === 0).map((power) => ({ value: 10 ** power, text: `10${small(power)}` }));
}

function axesOf(place, { left, top, width, height }, scales, ticks) {
  const bottom = top + height;
  const text = (words, attributes) => {
    const made = shape("text", attributes);
    made.textContent = words;
    return made;
  };
  const { x, y } = place.axes;
  const middle = top + height / 2;
  return [
    ...ticks.y.flatMap((tick) => {
      const at = top + scales.y(tick.value);
      return [
        shape("line", { class: "grid", x1: left, x2: left + width, y1: at, y2: at }),
        text(tick.text, { x: left - 8, y: at + 4, "text-anchor": "end" }),
      ];
    }),
    ...ticks.x.map((tick) => text(tick.text, { x: left + scales.x(tick.value), y: bottom + 18, "text-anchor": "middle" })),
    text(x.title, { class: "label", x: left + width / 2, y: bottom + 39, "text-anchor": "middle" }),
    ...(y.title ? [text(y.title, {
      class: "label", x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})`,
    })] : []),
  ];
}

function marks({ kind, x, y, color, width, dash = "solid", opacity = 1, end }, scales) {
  if (kind === "band") return [shape("path", { class: "band", d: `${pathOf(x, y, scales)}Z`, fill: color })];
  if (kind === "points") {
    const dots = x.flatMap((value, index) => (y[index] === null ? [] : `M${scales.x(value)},${scales.y(y[index])}h0`));
    return [shape("path", { class: "points", d: dots.join(""), stroke: color, opacity })];
  }
  const line = shape("path", {
    class: "line", d: pathOf(x, y, scales), stroke: color, "stroke-width": width, "stroke-dasharray": GAPS[dash], opacity,
  });
  if (end === undefined) return [line];
  // A diamond at the last point, with one standard deviation above and below.
  const [at, middle] = [scales.x(x.at(-1)), scales.y(y.at(-1))];
  const [low, high] = [scales.y(y.at(-1) - (end ?? 0)), scales.y(y.at(-1) + (end ?? 0))];
  const bar = `M${at},${low}V${high}M${at - 4},${low}h8M${at - 4},${high}h8`;
  const diamond = `M${at - 6},${middle}l6,-6l6,6l-6,6Z`;
  return [line, shape("path", { class: "line", d: bar, stroke: color }), shape("path", { d: diamond, fill: color })];
}

function pathOf(x, y, scales) {
  let pen = "M";
  const parts = [];
  x.forEach((value, index) => {
    const point = y[index] === null ? NaN : scales.y(y[index]);
    if (Number.isFinite(point)) parts.push(`${pen}${scales.x(value).toFixed(1)},${point.toFixed(1)}`);
    pen = Number.isFinite(point) ? "L" : "M";
  });
  return parts.join("");
}

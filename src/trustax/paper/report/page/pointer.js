// The pointer in a chart: it shows values, and drags select a part to zoom in.

const ZOOMING = "Drag over a part of the chart to zoom in; double-click to show everything again.";
const SHORTEST_DRAG = 8;
const NARROW = 500; // pixels, too few for a long list of values

function follow(place, chart, area, scales) {
  const tip = element("div", { class: "tip", hidden: true });
  const cursor = shape("line", { class: "cursor", y1: area.top, y2: area.top + area.height, visibility: "hidden" });
  const box = shape("rect", { class: "selection", visibility: "hidden" });
  chart.append(cursor, box);
  place.append(tip);
  let start = null;
  const position = ({ clientX, clientY }) => {
    const { left, top } = chart.getBoundingClientRect();
    const within = (value, most) => Math.min(most, Math.max(0, value));
    return [within(clientX - left - area.left, area.width), within(clientY - top - area.top, area.height)];
  };
  const hide = () => {
    tip.hidden = true;
    for (const one of [cursor, box]) one.setAttribute("visibility", "hidden");
  };
  chart.addEventListener("pointermove", (event) => {
    hide();
    if (start) select(box, area, start, position(event));
    else tell(place, tip, cursor, area, scales, position(event));
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return; // a finger scrolls the page
    start = position(event);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointerup", (event) => {
    if (!start) return;
    const [from, to] = [start, position(event)];
    start = null;
    const part = (scale, index) => [from[index], to[index]].map(scale.inverse).sort((a, b) => a - b);
    const long = [0, 1].map((index) => Math.abs(to[index] - from[index]) > SHORTEST_DRAG);
    if (long[0]) place.zoom.x = part(scales.x, 0);
    if (long[1]) place.zoom.y = part(scales.y, 1);
    if (long.some(Boolean)) paint(place);
  });
  chart.addEventListener("dblclick", () => {
    place.zoom = {};
    paint(place);
  });
}

function select(box, area, from, to) {
  const [x, y] = [0, 1].map((index) => Math.min(from[index], to[index]));
  const [width, height] = [0, 1].map((index) => Math.abs(to[index] - from[index]));
  const shown = { x: area.left + x, y: area.top + y, width, height, visibility: "visible" };
  for (const [name, value] of Object.entries(shown)) box.setAttribute(name, value);
}

// Shows the values at the pointer in a box beside it.
function tell(place, tip, cursor, area, scales, [x, y]) {
  const isLong = place.data.filter(({ kind }) => kind !== "band").length > 4;
  const single = place.closest || (isLong && place.clientWidth < NARROW);
  const found = place.data.flatMap((trace) => nearest(trace, scales, x, single ? y : null));
  if (found.length === 0) return;
  const best = found.reduce((least, one) => (one.distance < least.distance ? one : least));
  const shown = single ? [best] : found.filter(({ at }) => Math.abs(at - best.at) <= SHORTEST_DRAG);
  tip.replaceChildren(
    element("p", {}, `${count(Math.round(best.trace.x[best.index]))} ${place.axes.x.title}`),
    ...shown.map(({ trace, index }) => element("p", {}, swatch(trace), trace.name, " ", element("b", {}, trace.says(index)))),
  );
  tip.hidden = false;
  for (const name of ["x1", "x2"]) cursor.setAttribute(name, area.left + best.at);
  cursor.setAttribute("visibility", "visible");
  const isLeft = best.at < area.width / 2;
  tip.style.left = isLeft ? `${area.left + best.at + 14}px` : "";
  tip.style.right = isLeft ? "" : `${place.clientWidth - area.left - best.at + 14}px`;
}

// The point of a trace that is nearest to the pointer; horizontally only if `y` is null.
function nearest(trace, scales, x, y) {
  if (trace.kind === "band") return [];
  let best = null;
  trace.x.forEach((value, index) => {
    if (trace.y[index] === null) return;
    const at = scales.x(value);
    const distance = Math.hypot(at - x, y === null ? 0 : scales.y(trace.y[index]) - y);
    if (!best || distance < best.distance) best = { trace, index, at, distance };
  });
  return best ? [best] : [];
}

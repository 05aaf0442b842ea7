// The last hour as small curves: decisions, their durations, pending pods, and the use of the cluster.

import { byId, clock, count, make, milliseconds, number, share } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg", WIDTH = 240, HEIGHT = 40, HOUR = 3600, GAP = 30;

function svg(name, properties, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A line for each series; a point without a value interrupts its line, and so does a time without points, as when the machine was suspended.
function curves(points, series, top) {
  const last = points.at(-1).at, x = (at) => (WIDTH * (1 - (last - at) / HOUR)).toFixed(1), y = (value) => (HEIGHT - 1 - (HEIGHT - 3) * Math.min(1, value / top)).toFixed(1);
  const path = (values) => values.map((value, index) => (value === null ? "" : `${index && values[index - 1] !== null && points[index].at - points[index - 1].at < GAP ? "L" : "M"}${x(points[index].at)} ${y(value)}h.01`)).join("");
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...series.map((values, index) => svg("path", { d: path(values), class: `curve c${index}` })));
}

function figure(title, points, series, write, most) {
  const known = series.map(({ values }) => values.filter((value) => value !== null)), top = most ?? Math.max(1e-9, ...known.flat());
  const now = series.map(({ name, values }, index) => make("span", { class: `key c${index}` }, `${name ? `${name} ` : ""}${values.at(-1) === null ? "none" : write(values.at(-1))}`));
  const peak = known.flat().length ? `max ${write(Math.max(...known.flat()))}` : "";
  return make("figure", {}, make("figcaption", {}, make("span", { class: "quiet" }, title), now), curves(points, series.map(({ values }) => values), top),
    make("div", { class: "axis quiet" }, make("span", {}, points[0].at > points.at(-1).at - 0.9 * HOUR ? `since ${clock(points[0].at).slice(0, 5)}` : "1 h ago"), make("span", {}, peak)));
}

const MOST_RESOURCES = 3;

export function history(points) {
  if (!points.length) return byId("history").replaceChildren();
  const of = (read) => points.map(read), resources = Object.entries(points.at(-1).used).slice(0, MOST_RESOURCES).map(([name]) => name);
  return byId("history").replaceChildren(
    figure("Decisions per second", points, [{ values: of(({ rate }) => rate) }], (rate) => number(Math.round(100 * rate) / 100)),
    figure("Decision latency", points, [{ name: "P50", values: of(({ p50 }) => p50) }, { name: "P99", values: of(({ p99 }) => p99) }], (seconds) => milliseconds(1000 * seconds)),
    figure("Pending", points, [{ values: of(({ pending }) => pending) }], count),
    figure("Requested", points, !resources.length ? [{ values: of(() => 0) }] : resources.map((name) => ({ name, values: of(({ used }) => used[name] ?? 0) })), share, 1));
}

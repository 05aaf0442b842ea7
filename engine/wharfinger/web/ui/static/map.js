// The nodes as tiles on a canvas, in blocks by zone: thousands of elements would be slow, thousands of rectangles are not.

import { make, number, share, shown } from "./dom.js";
import { HEAD, Layout } from "./layout.js";

export const CORDONED = 1, NOT_READY = 2, TAINTED = 4;
const STOPS = ["--s0", "--s1", "--s2", "--s3", "--s4"], SHADES = 200;
const NO_SHADE = 0, OVER = 1, FIRST_SHADE = 2, FLAGS_AT = 8, FADED_AT = 11, RING_AT = 12, DRAINED_AT = 13, ARRIVALS_AT = 14, MOST_ARRIVALS = 100; // the parts of a look
const MOST_PIXELS = 2 ** 15 - 1, MOST_AREA = 2 ** 24; // browsers draw nothing on a larger canvas
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";

const parsed = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

const shade = (part) => Math.round(Math.min(1, Math.max(0, part)) * SHADES);

class Palette {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.stops = STOPS.map((name) => parsed(of(name)));
    Object.assign(this, { over: of("--over"), none: of("--none"), noneLine: of("--none-line"), ink: of("--ink"), quiet: of("--quiet"), card: of("--card"), cursor: of("--cursor"), bad: of("--bad") });
    this.known = new Map();
  }

  at(part) {
    const key = shade(part);
    if (!this.known.has(key)) {
      const place = (key / SHADES) * (this.stops.length - 1), first = Math.min(this.stops.length - 2, Math.floor(place)), rest = place - first;
      this.known.set(key, `rgb(${this.stops[first].map((from, i) => Math.round(from + rest * (this.stops[first + 1][i] - from))).join(" ")})`);
    }
    return this.known.get(key);
  }
}

export class ClusterMap {
  constructor(canvas, legend, { under, opened }) {
    Object.assign(this, { canvas, legend, under, opened, values: [], flags: [], scale: undefined, ratio: 0, cursor: -1, hovered: -1, matched: null, drained: new Set(), arrivals: new Map(), drawn: new Map() });
    this.context = canvas.getContext("2d");
    this.layout = new Layout((text) => { this.context.font = FONT; return this.context.measureText(text).width; });
    this.palette = new Palette();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.palette = new Palette(); this.drawAnew(); if (this.scale) this.drawLegend(); });
    new ResizeObserver(() => this.place()).observe(canvas.parentElement);
    canvas.addEventListener("mousemove", (event) => this.hover(this.hit(event)));
    canvas.addEventListener("mouseleave", () => this.hover(-1));
    // The cursor is on the node before the canvas has the keyboard: otherwise it would begin at the first node, and scroll there.
    canvas.addEventListener("mousedown", (event) => { const node = this.hit(event); if (node >= 0) this.take(node); });
    canvas.addEventListener("click", (event) => { if (this.hit(event) >= 0) this.open(); });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => { if (this.cursor < 0 && this.names.length) this.move(0); });
  }

  get names() { return this.layout.names; }

  tiles(tiles) {
    const { names } = tiles, held = this.names[this.cursor], before = new Map(this.names.map((name, node) => [name, node]));
    const kept = (of) => names.map((name) => of[before.get(name)]); // until the new ones come, or the map would flash
    Object.assign(this, { values: kept(this.values), flags: kept(this.flags) });
    this.layout.replace(tiles);
    this.moved(held);
  }

  // Some nodes have come, gone, or moved to another place of the columns.
  changeNodes(change) {
    const held = this.names[this.cursor];
    this.layout.change(change);
    for (const name of ["values", "flags"]) {
      this[name].length = change.count;
      change.at.forEach((node, index) => { this[name][node] = change[name][index]; });
    }
    this.moved(held);
    this.say();
  }

  moved(held) {
    this.hovered = -1;
    this.cursor = held === undefined ? -1 : this.names.indexOf(held);
    if (this.matched) this.match();
    this.place();
  }

  color(scale) {
    this.scale = scale;
    this.values = scale.values;
    this.draw();
    this.drawLegend();
    this.say();
  }

  // Without a colouring no node has a value.
  blank() {
    Object.assign(this, { scale: null, values: [] });
    this.legend.replaceChildren();
    this.draw();
    this.say();
  }

  change({ at, values }) {
    at.forEach((node, index) => { this.values[node] = values[index]; this.tile(node); });
    this.say();
  }

  flagged(flags) {
    this.flags = flags;
    this.draw();
  }

  // The tile size that fills the frame, and where each tile is then.
  place() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    this.layout.place(width, Math.max(260, innerHeight * 0.58));
    const height = Math.max(60, this.layout.height), ratio = Math.min(devicePixelRatio || 1, MOST_PIXELS / Math.max(width, height), Math.sqrt(MOST_AREA / (width * height)));
    const pixels = { width: Math.round(width * ratio), height: Math.round(height * ratio) };
    if (ratio !== this.ratio || pixels.width !== this.canvas.width || pixels.height !== this.canvas.height) {
      Object.assign(this.canvas, pixels); // which clears it
      this.canvas.style.height = `${height}px`;
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.ratio = ratio;
      this.drawn.clear();
    }
    this.draw();
  }

  // As much of a text as fits.
  cut(text, wide) {
    let length = Math.min(text.length, Math.ceil((text.length * wide) / this.context.measureText(text).width) + 2);
    while (length > 1 && this.context.measureText(`${text.slice(0, length)}…`).width > wide) length -= 1;
    return `${text.slice(0, length)}…`;
  }

  drawAnew() {
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.drawn.clear();
    this.draw();
  }

  // Draws what looks different from what is on the canvas. `drawn` has each block as it was drawn last, with the look of each tile.
  draw() {
    const { context, palette, layout } = this;
    if (!this.names.length) {
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      this.drawn.clear();
      context.fillStyle = palette.quiet;
      context.font = "14px system-ui, sans-serif";
      context.fillText("No nodes.", 1, 24);
      return;
    }
    if (this.scale === undefined) return; // the first colours come right after the names
    if (!this.drawn.size) context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const there = new Set(layout.blocks);
    for (const [block, was] of this.drawn) {
      if (there.has(block) && was.size === layout.size && ["left", "top", "across", "wide"].every((side) => was[side] === block[side])) continue;
      context.clearRect(was.left, was.top, was.wide + 2, was.high);
      this.drawn.delete(block);
    }
    for (const block of layout.blocks) this.drawBlock(block);
  }

  drawBlock(block) {
    const { context, palette, layout, drawn } = this, { left, top, across, wide, high, title, nodes } = block;
    if (!drawn.has(block)) drawn.set(block, { left, top, across, wide, size: layout.size, title: null, looks: [] });
    const was = drawn.get(block);
    if (was.title !== title) {
      if (was.title !== null) context.clearRect(left, top, wide + 2, HEAD);
      context.font = FONT;
      context.fillStyle = palette.quiet;
      context.fillText(context.measureText(title).width > wide + 1 ? this.cut(title, wide) : title, left + 1, top + 14);
    }
    Object.assign(was, { title, high });
    nodes.forEach((node, slot) => this.drawTile(block, was.looks, slot, node));
    for (let slot = nodes.length; slot < was.looks.length; slot += 1) context.clearRect(...layout.corner(block, slot), layout.size, layout.size);
    was.looks.length = nodes.length;
  }

  tile(node) {
    const block = this.layout.byZone.get(this.layout.zones[node]), was = this.drawn.get(block);
    if (was) this.drawTile(block, was.looks, this.layout.slots[node], node);
  }

  // All that the picture of a tile depends on, as one number.
  look(node) {
    const part = this.part(node), name = this.names[node], shown = part === null ? NO_SHADE : part > 1.0005 ? OVER : FIRST_SHADE + shade(part);
    const faded = this.matched !== null && !this.matched.has(node), ring = node === this.cursor || node === this.hovered;
    return shown | ((this.flags[node] ?? 0) << FLAGS_AT) | (faded << FADED_AT) | (ring << RING_AT) | ((this.drained.size > 0 && this.drained.has(name)) << DRAINED_AT)
      | ((this.arrivals.size && Math.min(MOST_ARRIVALS, this.arrivals.get(name) ?? 0)) << ARRIVALS_AT);
  }

  drawTile(block, looks, slot, node) {
    const look = this.look(node);
    if (looks[slot] === look) return;
    const { context, palette, layout: { size } } = this, [left, top] = this.layout.corner(block, slot), side = size - (size > 12 ? 2 : 1);
    if (looks[slot] !== undefined) context.clearRect(left, top, size, size);
    looks[slot] = look;
    context.globalAlpha = (look >> FADED_AT) & 1 ? 0.15 : 1;
    this.paint(context, left, top, side, this.part(node));
    this.marks(context, left, top, side, this.flags[node] ?? 0);
    this.supposed(context, left, top, side, this.names[node]);
    context.globalAlpha = 1;
    if ((look >> RING_AT) & 1) {
      context.strokeStyle = palette.cursor;
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, side - 2, side - 2);
    }
  }

  paint(context, left, top, side, part) {
    context.fillStyle = part === null ? this.palette.none : part > 1.0005 ? this.palette.over : this.palette.at(part);
    context.fillRect(left, top, side, side);
    if (part === null) this.line(context, this.palette.noneLine, left + 0.5, top + side - 0.5, left + side - 0.5, top + 0.5);
  }

  marks(context, left, top, side, flags) {
    if (flags & TAINTED) {
      context.fillStyle = this.palette.cursor;
      context.fillRect(left, top, Math.max(2, side / 4), Math.max(2, side / 4));
    }
    if (flags & CORDONED) {
      context.fillStyle = this.palette.ink;
      context.fillRect(left, top + side / 2 - 1, side, 2);
    }
    if (flags & NOT_READY) {
      this.line(context, this.palette.bad, left + 1, top + 1, left + side - 1, top + side - 1, 2);
      this.line(context, this.palette.bad, left + 1, top + side - 1, left + side - 1, top + 1, 2);
    }
  }

  // What is only supposed: a frame around a node that is drained, a disc with the number of pods that come.
  supposed(context, left, top, side, name) {
    if (this.drained.has(name)) {
      Object.assign(context, { strokeStyle: this.palette.bad, lineWidth: 3 });
      context.strokeRect(left + 1.5, top + 1.5, side - 3, side - 3);
    }
    const come = this.arrivals.get(name);
    if (!come) return;
    context.beginPath();
    context.arc(left + side / 2, top + side / 2, Math.max(2, side * 0.42), 0, 2 * Math.PI);
    context.fillStyle = this.palette.card;
    context.fill();
    Object.assign(context, { strokeStyle: this.palette.ink, lineWidth: 1 });
    context.stroke();
    if (side < 14) return;
    Object.assign(context, { fillStyle: this.palette.ink, textAlign: "center", textBaseline: "middle" });
    context.fillText(come > 99 ? "99+" : String(come), left + side / 2, top + side / 2 + 1, side * 0.8);
    Object.assign(context, { textAlign: "start", textBaseline: "alphabetic" });
  }

  suppose(drained, arrivals) {
    Object.assign(this, { drained, arrivals });
    this.draw();
    this.say();
  }

  line(context, colour, fromX, fromY, toX, toY, width = 1) {
    Object.assign(context, { strokeStyle: colour, lineWidth: width });
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  }

  part(node) {
    const value = this.values[node];
    return value === undefined || value < 0 ? null : value / this.scale.steps;
  }

  text(node) {
    const part = this.part(node), { unit, low, high } = this.scale ?? {};
    if (part === null) return unit === "points" ? "not feasible" : "no value";
    return written(low + part * (high - low), unit);
  }

  described(node) {
    const flags = this.flags[node] ?? 0;
    const name = this.names[node], come = this.arrivals.get(name);
    const more = [this.drained.has(name) && "to be drained", come && `${come} ${come === 1 ? "pod" : "pods"} would be scheduled here`, flags & NOT_READY && "not ready", flags & CORDONED && "cordoned", flags & TAINTED && "tainted"].filter(Boolean);
    return [this.names[node], `${this.scale?.title ?? ""} ${this.text(node)}`, this.layout.zoneNames[this.layout.zones[node]], ...more].filter(Boolean).map(shown).join(" · ");
  }

  hit({ offsetX, offsetY }) { return this.layout.at(offsetX, offsetY); }

  hover(node) {
    if (node === this.hovered) return;
    const before = this.hovered;
    this.hovered = node;
    for (const each of [before, node]) if (each >= 0) this.tile(each);
    this.say();
  }

  say() {
    const node = this.hovered >= 0 ? this.hovered : this.cursor;
    const hint = this.names.length ? "Point at a node, or use the arrow keys." : "";
    this.under(node >= 0 && this.scale ? this.described(node) : hint);
  }

  key(event) {
    const { order } = this.layout, at = order.indexOf(this.cursor), last = order.length - 1;
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: this.beside(order, 1), ArrowUp: this.beside(order, -1), Home: 0, End: last };
    if (event.key in moves && last >= 0) {
      event.preventDefault();
      this.move(Math.min(last, Math.max(0, moves[event.key])));
    } else if (event.key === "Enter") {
      event.preventDefault(); // the button that the dialog gives the keyboard to would take this very key for itself
      if (!event.repeat) this.open();
    }
  }

  // The place in the order of the node in the next row (1) or the former one (-1) that is nearest.
  beside(order, direction) {
    const at = order.indexOf(this.cursor);
    if (at < 0) return 0;
    const [left, top] = this.layout.corners(this.cursor);
    let best = at, least = [Infinity, Infinity];
    order.forEach((node, index) => {
      const [x, y] = this.layout.corners(node), away = [(y - top) * direction, Math.abs(x - left)];
      if (away[0] > 0 && (away[0] < least[0] || (away[0] === least[0] && away[1] < least[1]))) [best, least] = [index, away];
    });
    return best;
  }

  open() {
    if (this.cursor >= 0) this.opened(this.names[this.cursor]);
  }

  take(node) {
    const before = this.cursor;
    this.cursor = node;
    for (const each of [before, node]) if (each >= 0) this.tile(each);
    this.say();
  }

  move(index) {
    this.take(this.layout.order[index]);
    const [, top] = this.layout.corners(this.cursor), { size } = this.layout, frame = this.canvas.parentElement;
    if (top < frame.scrollTop) frame.scrollTop = top - HEAD;
    else if (top + size > frame.scrollTop + frame.clientHeight) frame.scrollTop = top + size - frame.clientHeight;
  }

  // Nodes that have a text in their name or zone stay bright, the others fade.
  find(text) {
    this.searched = text.trim().toLowerCase();
    this.match();
    this.draw();
    if (this.matched?.size) this.move(this.layout.order.findIndex((node) => this.matched.has(node)));
  }

  match() {
    const has = (text) => (text ?? "").toLowerCase().includes(this.searched);
    this.matched = this.searched ? new Set(this.names.map((_, node) => node).filter((node) => has(this.names[node]) || has(this.layout.zoneNames[this.layout.zones[node]]))) : null;
  }

  drawLegend() {
    const { low, high, unit, note } = this.scale, bar = make("canvas", { width: 160, height: 12, role: "img", "aria-label": "scale from pale to strong" }), context = bar.getContext("2d");
    for (let x = 0; x < 160; x += 1) { context.fillStyle = this.palette.at(x / 159); context.fillRect(x, 0, 1, 12); }
    const sample = (text, paint) => {
      const swatch = make("canvas", { width: 14, height: 14, "aria-hidden": "true" });
      paint(swatch.getContext("2d"));
      return make("span", {}, swatch, text);
    };
    const plain = (flags) => (at) => { this.paint(at, 0, 0, 14, 0.2); this.marks(at, 0, 0, 14, flags); };
    this.legend.replaceChildren(make("span", {}, written(low, unit), bar, written(high, unit)),
      ...(unit === "fraction" ? [sample("more than 100%", (at) => this.paint(at, 0, 0, 14, 2))] : []),
      sample(unit === "points" ? "not feasible" : "no value", (at) => this.paint(at, 0, 0, 14, null)),
      sample("tainted", plain(TAINTED)), sample("cordoned", plain(CORDONED)), sample("not ready", plain(NOT_READY)), ...(note ? [make("span", {}, note)] : []));
  }
}

const written = (value, unit) => (unit === "fraction" ? share(value) : `${number(value)}${unit === "points" ? "" : ` ${unit}`}`);

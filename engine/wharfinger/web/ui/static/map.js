// The nodes as tiles on a canvas, in blocks by zone: thousands of elements would be slow, thousands of rectangles are not.

import { make, number, share, shown } from "./dom.js";

export const CORDONED = 1, NOT_READY = 2, TAINTED = 4;
const SMALLEST = 7, LARGEST = 30, HEAD = 20, GAP_BETWEEN = 8, GAP_BESIDE = 16, WIDEST_NAME = 160, STOPS = ["--s0", "--s1", "--s2", "--s3", "--s4"];
const MOST_PIXELS = 2 ** 15 - 1, MOST_AREA = 2 ** 24; // browsers draw nothing on a larger canvas
const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";
const order = new Intl.Collator("en", { numeric: true });

const parsed = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

class Palette {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    this.stops = STOPS.map((name) => parsed(of(name)));
    Object.assign(this, { over: of("--over"), none: of("--none"), noneLine: of("--none-line"), ink: of("--ink"), quiet: of("--quiet"), card: of("--card"), cursor: of("--cursor"), bad: of("--bad") });
    this.known = new Map();
  }

  at(part) {
    const key = Math.round(Math.min(1, Math.max(0, part)) * 200);
    if (!this.known.has(key)) {
      const place = (key / 200) * (this.stops.length - 1), first = Math.min(this.stops.length - 2, Math.floor(place)), rest = place - first;
      this.known.set(key, `rgb(${this.stops[first].map((from, i) => Math.round(from + rest * (this.stops[first + 1][i] - from))).join(" ")})`);
    }
    return this.known.get(key);
  }
}

export class ClusterMap {
  constructor(canvas, legend, { under, opened }) {
    Object.assign(this, { canvas, legend, under, opened, names: [], zones: [], zoneNames: [], values: [], flags: [], scale: null, order: [], places: [], blocks: [], cursor: -1, hovered: -1, matched: null, drained: new Set(), arrivals: new Map() });
    this.context = canvas.getContext("2d");
    this.palette = new Palette();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.palette = new Palette(); this.draw(); if (this.scale) this.drawLegend(); });
    new ResizeObserver(() => this.place()).observe(canvas.parentElement);
    canvas.addEventListener("mousemove", (event) => this.hover(this.hit(event)));
    canvas.addEventListener("mouseleave", () => this.hover(-1));
    // The cursor is on the node before the canvas has the keyboard: otherwise it would begin at the first node, and scroll there.
    canvas.addEventListener("mousedown", (event) => { const node = this.hit(event); if (node >= 0) this.take(node); });
    canvas.addEventListener("click", (event) => { if (this.hit(event) >= 0) this.open(); });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => { if (this.cursor < 0 && this.order.length) this.move(0); });
  }

  tiles({ names, zones, zoneNames }) {
    const held = this.names[this.cursor], before = new Map(this.names.map((name, node) => [name, node]));
    const kept = (of) => names.map((name) => of[before.get(name)]); // until the new ones come, or the map would flash
    Object.assign(this, { values: kept(this.values), flags: kept(this.flags) });
    Object.assign(this, { names, zones, zoneNames, hovered: -1 });
    const keys = names.map((_, node) => node);
    this.order = keys.sort((a, b) => order.compare(zoneNames[zones[a]] ?? "￿", zoneNames[zones[b]] ?? "￿") || order.compare(names[a], names[b]));
    this.cursor = held === undefined ? -1 : names.indexOf(held);
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
    const room = Math.max(260, innerHeight * 0.58), blocks = this.inBlocks();
    let size = LARGEST;
    while (size > SMALLEST && this.boxes(blocks, size, width).height > room) size -= 1;
    const { boxes, height: needed } = this.boxes(blocks, size, width);
    Object.assign(this, { size, width, places: [], blocks: boxes });
    for (const { nodes, left, top, across } of boxes) nodes.forEach((node, index) => { this.places[node] = [left + (index % across) * size, top + HEAD + Math.floor(index / across) * size]; });
    const height = Math.max(60, needed), ratio = Math.min(devicePixelRatio || 1, MOST_PIXELS / Math.max(width, height), Math.sqrt(MOST_AREA / (width * height)));
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  inBlocks() {
    const blocks = [];
    for (const node of this.order) {
      const zone = this.zones[node], last = blocks.at(-1);
      if (last && last.zone === zone) last.nodes.push(node);
      else blocks.push({ zone, name: this.zoneNames[zone] ?? "no zone", nodes: [node] });
    }
    this.context.font = FONT;
    return blocks.map((block) => {
      const title = shown(`${block.name} · ${block.nodes.length}`);
      return { ...block, title, titleWidth: Math.min(WIDEST_NAME, this.context.measureText(title).width) };
    });
  }

  // Where the blocks are: side by side as far as they fit into the width, and the height of all.
  boxes(blocks, size, width) {
    const most = Math.max(1, Math.floor(width / size)), boxes = [];
    let left = 0, top = 0, below = 0;
    for (const block of blocks) {
      const across = Math.min(most, block.nodes.length), wide = Math.max(across * size, block.titleWidth);
      if (left && (left + wide > width || block.nodes.length > most)) [left, top] = [0, below];
      boxes.push({ ...block, left, top, across, wide: Math.min(width, wide) });
      below = Math.max(below, top + HEAD + Math.ceil(block.nodes.length / across) * size + GAP_BETWEEN);
      left += wide + GAP_BESIDE;
    }
    return { boxes, height: below };
  }

  // As much of a text as fits.
  cut(text, wide) {
    let length = Math.min(text.length, Math.ceil((text.length * wide) / this.context.measureText(text).width) + 2);
    while (length > 1 && this.context.measureText(`${text.slice(0, length)}…`).width > wide) length -= 1;
    return `${text.slice(0, length)}…`;
  }

  draw() {
    const { context, palette } = this;
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.names.length) {
      context.fillStyle = palette.quiet;
      context.font = "14px system-ui, sans-serif";
      context.fillText("no nodes", 4, 24);
      return;
    }
    context.font = FONT;
    context.fillStyle = palette.quiet;
    for (const { title, left, top, wide } of this.blocks) context.fillText(context.measureText(title).width > wide + 1 ? this.cut(title, wide) : title, left + 1, top + 14);
    this.names.forEach((_, node) => this.tile(node));
  }

  tile(node) {
    const place = this.places[node];
    if (!place) return;
    const { context, palette } = this, [left, top] = place, gap = this.size > 12 ? 2 : 1, side = this.size - gap;
    context.globalAlpha = this.matched && !this.matched.has(node) ? 0.15 : 1;
    context.fillStyle = palette.card;
    context.fillRect(left, top, this.size, this.size);
    this.paint(context, left, top, side, this.part(node));
    this.marks(context, left, top, side, this.flags[node] ?? 0);
    this.supposed(context, left, top, side, this.names[node]);
    context.globalAlpha = 1;
    if (node === this.cursor || node === this.hovered) {
      context.strokeStyle = palette.cursor;
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, side - 2, side - 2);
    }
  }

  paint(context, left, top, side, part) {
    context.fillStyle = part === null ? this.palette.none : part > 1.0005 ? this.palette.over : this.palette.at(part);
    context.fillRect(left, top, side, side);
    if (part === null) this.line(context, this.palette.noneLine, left, top + side, left + side, top);
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
      this.line(context, this.palette.bad, left, top, left + side, top + side, 2);
      this.line(context, this.palette.bad, left, top + side, left + side, top, 2);
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
    return [this.names[node], `${this.scale?.title ?? ""} ${this.text(node)}`, this.zoneNames[this.zones[node]], ...more].filter(Boolean).map(shown).join(" · ");
  }

  hit({ offsetX, offsetY }) {
    return this.places.findIndex((place) => place && offsetX >= place[0] && offsetX < place[0] + this.size && offsetY >= place[1] && offsetY < place[1] + this.size);
  }

  hover(node) {
    if (node === this.hovered) return;
    const before = this.hovered;
    this.hovered = node;
    for (const each of [before, node]) if (each >= 0) this.tile(each);
    this.say();
  }

  say() {
    const node = this.hovered >= 0 ? this.hovered : this.cursor;
    const hint = this.order.length ? "Point at a node, or use the arrow keys." : "";
    this.under(node >= 0 && this.scale ? this.described(node) : hint);
  }

  key(event) {
    const at = this.order.indexOf(this.cursor), last = this.order.length - 1;
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: this.beside(1), ArrowUp: this.beside(-1), Home: 0, End: last };
    if (event.key in moves && last >= 0) {
      event.preventDefault();
      this.move(Math.min(last, Math.max(0, moves[event.key])));
    } else if (event.key === "Enter") {
      event.preventDefault(); // the button that the dialog gives the keyboard to would take this very key for itself
      if (!event.repeat) this.open();
    }
  }

  // The place in the order of the node in the next row (1) or the former one (-1) that is nearest.
  beside(direction) {
    const at = this.order.indexOf(this.cursor);
    if (at < 0) return 0;
    const [left, top] = this.places[this.cursor];
    let best = at, least = [Infinity, Infinity];
    this.order.forEach((node, index) => {
      const [x, y] = this.places[node], away = [(y - top) * direction, Math.abs(x - left)];
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
    this.take(this.order[index]);
    const [, top] = this.places[this.cursor], frame = this.canvas.parentElement;
    if (top < frame.scrollTop) frame.scrollTop = top - HEAD;
    else if (top + this.size > frame.scrollTop + frame.clientHeight) frame.scrollTop = top + this.size - frame.clientHeight;
  }

  // Nodes that have a text in their name or zone stay bright, the others fade.
  find(text) {
    this.searched = text.trim().toLowerCase();
    this.match();
    this.draw();
    if (this.matched?.size) this.move(this.order.findIndex((node) => this.matched.has(node)));
  }

  match() {
    const has = (text) => (text ?? "").toLowerCase().includes(this.searched);
    this.matched = this.searched ? new Set(this.order.filter((node) => has(this.names[node]) || has(this.zoneNames[this.zones[node]]))) : null;
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
      ...(unit === "fraction" ? [sample("more than 100 %", (at) => this.paint(at, 0, 0, 14, 2))] : []),
      sample(unit === "points" ? "not feasible" : "no value", (at) => this.paint(at, 0, 0, 14, null)),
      sample("tainted", plain(TAINTED)), sample("cordoned", plain(CORDONED)), sample("not ready", plain(NOT_READY)), ...(note ? [make("span", {}, note)] : []));
  }
}

const written = (value, unit) => (unit === "fraction" ? share(value) : `${number(value)}${unit === "points" ? "" : ` ${unit}`}`);

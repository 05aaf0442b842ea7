// The nodes in blocks by zone, in the order of their names, and where each block and each tile is.

import { shown } from "./dom.js";

export const HEAD = 20; // above the tiles of a block, for its title
const SMALLEST = 7, LARGEST = 30, GAP_BETWEEN = 8, GAP_BESIDE = 16, WIDEST_NAME = 160, LAST = "￿";
const { compare } = new Intl.Collator("en", { numeric: true });

export class Layout {
  // `measure` gives the width of a text.
  constructor(measure) {
    Object.assign(this, { measure, names: [], zones: [], zoneNames: [], blocks: [], byZone: new Map(), slots: [], size: LARGEST, height: 0 });
  }

  get order() { return this.blocks.flatMap(({ nodes }) => nodes); }

  // Other nodes.
  replace({ names, zones, zoneNames }) {
    Object.assign(this, { names, zones, zoneNames, slots: new Array(names.length), byZone: new Map() });
    zones.forEach((zone, node) => this.block(zone).nodes.push(node));
    for (const block of this.byZone.values()) {
      block.nodes.sort((a, b) => compare(names[a], names[b]));
      this.number(block);
    }
    this.arrange();
  }

  // The nodes at some places have come, gone or moved to another place: only their blocks are looked at.
  change({ count, at, names, zones }) {
    const others = at.map((node, index) => index).filter((index) => this.names[at[index]] !== names[index] || this.zones[at[index]] !== zones[index]);
    const gone = others.map((index) => at[index]).filter((node) => node < this.names.length);
    for (let node = count; node < this.names.length; node += 1) gone.push(node);
    const changed = this.without(gone);
    for (const all of [this.names, this.zones, this.slots]) all.length = count;
    for (const index of others) [this.names[at[index]], this.zones[at[index]]] = [names[index], zones[index]];
    for (const index of others) changed.add(this.insert(at[index]));
    for (const block of changed) this.number(block);
    if (changed.size) this.arrange();
  }

  without(nodes) {
    const left = new Map();
    for (const node of nodes) {
      const block = this.byZone.get(this.zones[node]);
      if (!left.has(block)) left.set(block, new Set());
      left.get(block).add(node);
    }
    for (const [block, those] of left) block.nodes = block.nodes.filter((node) => !those.has(node));
    return new Set(left.keys());
  }

  insert(node) {
    const block = this.block(this.zones[node]), { nodes } = block, name = this.names[node];
    let first = 0, end = nodes.length;
    while (first < end) {
      const middle = (first + end) >> 1;
      if (compare(this.names[nodes[middle]], name) < 0) first = middle + 1;
      else end = middle;
    }
    nodes.splice(first, 0, node);
    return block;
  }

  block(zone) {
    if (!this.byZone.has(zone)) this.byZone.set(zone, { zone, name: this.zoneNames[zone] ?? "no zone", nodes: [], counted: -1 });
    return this.byZone.get(zone);
  }

  number({ nodes }) {
    nodes.forEach((node, slot) => { this.slots[node] = slot; });
  }

  arrange() {
    const key = ({ zone }) => this.zoneNames[zone] ?? LAST;
    this.blocks = [...this.byZone.values()].filter(({ nodes }) => nodes.length).sort((a, b) => compare(key(a), key(b)));
  }

  // The largest tiles with which all blocks are at most `room` high, and where each block is then.
  place(width, room) {
    for (const block of this.blocks) {
      if (block.counted === block.nodes.length) continue;
      const title = shown(`${block.name} · ${block.nodes.length}`);
      Object.assign(block, { title, counted: block.nodes.length, titleWidth: Math.min(WIDEST_NAME, this.measure(title)) });
    }
    for (this.size = LARGEST; ; this.size -= 1) {
      this.beside(width);
      if (this.size === SMALLEST || this.height <= room) return;
    }
  }

  // Side by side as far as they fit into the width.
  beside(width) {
    const { size } = this, most = Math.max(1, Math.floor(width / size));
    let left = 0, top = 0, below = 0;
    for (const block of this.blocks) {
      const amount = block.nodes.length, across = Math.min(most, amount), wide = Math.max(across * size, block.titleWidth), high = HEAD + Math.ceil(amount / across) * size;
      if (left && (left + wide > width || amount > most)) [left, top] = [0, below];
      Object.assign(block, { left, top, across, wide: Math.min(width, wide), high });
      below = Math.max(below, top + high + GAP_BETWEEN);
      left += wide + GAP_BESIDE;
    }
    this.height = below;
  }

  // The left upper corner of a place in a block.
  corner({ left, top, across }, slot, size = this.size) {
    return [left + (slot % across) * size, top + HEAD + Math.floor(slot / across) * size];
  }

  corners(node) { return this.corner(this.byZone.get(this.zones[node]), this.slots[node]); }

  // The node at a point, -1 if there is none.
  at(x, y) {
    for (const { left, top, across, nodes } of this.blocks) {
      const column = Math.floor((x - left) / this.size), row = Math.floor((y - top - HEAD) / this.size);
      if (column >= 0 && column < across && row >= 0 && row * across + column < nodes.length) return nodes[row * across + column];
    }
    return -1;
  }
}

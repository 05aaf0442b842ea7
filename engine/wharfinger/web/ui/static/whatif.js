// What if: where the pods of a workload would go, and those of nodes that are drained. Nothing in the cluster is changed.

import { byId, count, fill, make, nodes, table } from "./dom.js";
import { link, part, quiet, verdict } from "./verdict.js";

const MOST_SHOWN = 200, LONGEST_IN_ADDRESS = 4000;
const YAML = "application/yaml", JSON_TYPE = "application/json";

async function sent(path, type, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": type }, body });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return answer.json();
}

export class WhatIf {
  constructor({ map, noted, showNode, showPod }) {
    Object.assign(this, { map, noted, showNode, showPod, drained: new Set(), picking: false, turn: null });
    this.text = byId("workload");
    byId("pick").addEventListener("click", () => this.pick(!this.picking));
    byId("whatif-form").addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    byId("whatif-clear").addEventListener("click", () => this.clear());
    this.text.addEventListener("input", () => this.note());
  }

  // A scheduler that does not answer such questions has no part for them on its page.
  async offer() {
    const answer = await fetch("evaluate/schema").catch(() => null);
    byId("whatif").hidden = !answer?.ok;
  }

  show({ workload, drain }) {
    const named = drain ? drain.split(",") : [];
    if (workload !== this.written && workload !== this.text.value) this.text.value = workload;
    if (named.join() === [...this.drained].join()) return;
    this.drained = new Set(named);
    this.mark();
  }

  get written() { return this.text.value.length <= LONGEST_IN_ADDRESS ? this.text.value : ""; }

  note() { this.noted({ workload: this.written, drain: [...this.drained].join(",") }); }

  pick(picking) {
    this.picking = picking;
    byId("pick").setAttribute("aria-pressed", picking);
    byId("map-help").textContent = picking ? "Enter chooses a node to be drained, or takes it back." : byId("map-help").dataset.usual;
    if (picking) byId("map").focus();
  }

  // What a click on a node means: true if it was chosen or taken back.
  taken(node) {
    if (!this.picking) return false;
    if (!this.drained.delete(node)) this.drained.add(node);
    this.note();
    this.mark();
    return true;
  }

  mark(arrivals = new Map()) {
    this.map.suppose(this.drained, arrivals);
    const chips = [...this.drained].map((node) => make("li", {}, make("button", { type: "button", "data-key": `drained ${node}`, "aria-label": `do not drain ${node}`, onclick: () => { this.drained.delete(node); this.note(); this.mark(); } }, `${node} ×`)));
    fill(byId("drained"), chips.length ? chips : make("li", { class: "quiet" }, "none"));
  }

  clear() {
    this.text.value = "";
    this.drained.clear();
    this.turn = null;
    this.pick(false);
    this.note();
    this.mark();
    byId("whatif-answer").replaceChildren();
  }

  async ask() {
    const body = byId("whatif-answer"), turn = (this.turn = Symbol("what if"));
    this.pick(false);
    body.replaceChildren(quiet("asking …"));
    const made = await this.answer().catch((error) => ({ shown: [verdict("bad", error.message)], arrivals: new Map() }));
    if (this.turn !== turn) return;
    this.mark(made.arrivals);
    body.replaceChildren(...made.shown);
  }

  async answer() {
    const { objects } = this.text.value.trim() ? await sent("ui/objects", YAML, this.text.value) : { objects: [] };
    if (!objects.length && !this.drained.size) throw new Error("There is nothing to try: paste a workload, or pick nodes to be drained.");
    const told = await sent("evaluate", JSON_TYPE, JSON.stringify({ objects, drain: [...this.drained] }));
    const arrivals = new Map();
    for (const { node } of told.pods) if (node !== null) arrivals.set(node, (arrivals.get(node) ?? 0) + 1);
    return { arrivals, shown: this.told(told, arrivals) };
  }

  told({ pods, placed, unschedulable, remarks }, arrivals) {
    const all = placed + unschedulable, on = nodes(arrivals.size);
    const title = !all ? "No pod would have to be placed" : unschedulable ? `${count(unschedulable)} of ${count(all)} pods would get no node` : `All ${count(all)} pods would get a node, on ${on}`;
    const order = [...pods].sort((one, other) => (one.node === null ? 0 : 1) - (other.node === null ? 0 : 1));
    const rows = order.slice(0, MOST_SHOWN).map(({ pod, node, from, message, victims = [] }) => make("tr", {}, make("td", { class: "name" }, from ? link(pod, () => this.showPod(pod)) : pod), make("td", {}, from ?? "new"),
      make("td", { class: "wide" }, node === null ? message : link(node, () => this.showNode(node)), victims.length ? make("div", { class: "quiet" }, `${victims.join(", ")} would be evicted`) : null)));
    if (order.length > MOST_SHOWN) rows.push(make("tr", {}, make("td", { colspan: 3, class: "quiet" }, `and ${count(order.length - MOST_SHOWN)} more`)));
    return [verdict(unschedulable ? "bad" : "good", title, unschedulable && placed ? `${count(placed)} would go to ${on}.` : ""), ...remarks.map((remark) => quiet(remark)),
      ...(this.drained.size ? [quiet("Of drained nodes, pods that no controller makes again are left out, and those of DaemonSets stay.")] : []),
      ...(rows.length ? [part("Where they would go", table(["pod", "from", "node, or why not"], rows, "Where pods would go"))] : [])];
  }
}

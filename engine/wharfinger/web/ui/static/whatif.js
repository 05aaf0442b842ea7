// What if: where the pods of a workload would go, with more nodes, and those of nodes that are drained. Nothing in the cluster is changed.

import { ask } from "./ask.js";
import { fill, reachable } from "./content.js";
import { byId, count, make, nodes, table } from "./dom.js";
import { link, part, quiet, verdict } from "./verdict.js";

const MOST_SHOWN = 200, MOST_OFFERED = 30, MOST_ADDED = 500, LONGEST_IN_ADDRESS = 6000, LONGEST_TEXT = 2 ** 18;
const YAML = "application/yaml", JSON_TYPE = "application/json";

const sent = (path, type, body, signal) => ask(path, { method: "POST", headers: { "Content-Type": type }, body, signal });

// The nodes with how many of each to add, of "node-7:3,node-8:1".
function additions(text) {
  const pairs = text.split(",").map((part) => part.split(":")).filter(([node]) => node);
  return new Map(pairs.map(([node, many]) => [node, Math.min(MOST_ADDED, Math.max(1, Number.parseInt(many, 10) || 1))]));
}

export class WhatIf {
  constructor({ map, noted, showNode, showPod }) {
    Object.assign(this, { map, noted, showNode, showPod, drained: new Set(), extra: new Map(), picking: false, asked: null, asking: new AbortController() });
    this.text = byId("workload");
    this.offered = this.offer();
    byId("pick").addEventListener("click", () => this.pick(!this.picking));
    byId("add").addEventListener("click", () => this.add());
    byId("add-like").addEventListener("input", () => this.propose());
    for (const id of ["add-count", "add-like"]) byId(id).addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); this.add(); } });
    byId("whatif-form").addEventListener("submit", (event) => { event.preventDefault(); this.ask(); });
    byId("whatif-clear").addEventListener("click", () => this.clear());
    byId("whatif-cancel").addEventListener("click", () => this.cancel());
    this.text.addEventListener("input", () => this.note());
    this.text.addEventListener("paste", (event) => this.pasted(event));
  }

  // A browser stands still for a long time with some megabytes in a field.
  pasted(event) {
    const letters = event.clipboardData.getData("text").length;
    if (letters <= LONGEST_TEXT) return;
    event.preventDefault();
    this.cancel();
    byId("whatif-answer").replaceChildren(verdict("bad", `The text has ${count(letters)} characters; the limit is ${count(LONGEST_TEXT)}`, "Paste only the workloads that matter, or send the text to POST /evaluate."));
  }

  // A scheduler that does not answer such questions has no part for them on its page; false then.
  async offer() {
    const answer = await fetch("evaluate/schema").catch(() => null);
    byId("whatif").hidden = !answer?.ok;
    return !byId("whatif").hidden;
  }

  show({ workload, drain, add }) {
    if (workload !== this.written && workload !== this.text.value) this.text.value = workload;
    if (drain !== [...this.drained].join() || add !== this.addition) {
      this.drained = new Set(drain.split(",").filter(Boolean));
      this.extra = additions(add);
      this.mark();
    }
    this.compare();
  }

  get question() { return JSON.stringify([this.text.value, [...this.drained], [...this.extra]]); }

  // An answer is not read as that to another question.
  compare() {
    byId("whatif-changed").textContent = this.asked === null || this.asked === this.question ? "" : "The question was changed after this answer. Select Try to update it.";
  }

  // The text as the address has it: servers and proxies refuse an address that is very long.
  get written() {
    const { value } = this.text;
    return value.length <= LONGEST_IN_ADDRESS && encodeURIComponent(value.toWellFormed()).length <= LONGEST_IN_ADDRESS ? value : "";
  }

  get addition() { return [...this.extra].map(([node, many]) => `${node}:${many}`).join(); }

  note() {
    byId("whatif-kept").textContent = this.text.value && !this.written ? "The text is too long for the address of this page: a reload loses it." : "";
    this.compare();
    this.noted({ workload: this.written, drain: [...this.drained].join(","), add: this.addition });
  }

  // Names of nodes for what is typed so far: a list of all would be too long.
  propose() {
    const typed = byId("add-like").value, names = this.map.names.filter((name) => name.includes(typed));
    byId("add-names").replaceChildren(...names.slice(0, MOST_OFFERED).map((name) => make("option", { value: name })));
  }

  add() {
    const like = byId("add-like"), many = byId("add-count");
    like.setCustomValidity(this.map.names.includes(like.value) ? "" : "There is no node of this name.");
    const others = [...this.extra].reduce((sum, [node, added]) => sum + (node === like.value ? 0 : added), 0);
    many.setCustomValidity(others + many.valueAsNumber > MOST_ADDED ? `At most ${MOST_ADDED} nodes can be added.` : "");
    const valid = many.reportValidity() && like.reportValidity();
    for (const each of [like, many]) each.setCustomValidity("");
    if (!valid) return;
    this.extra.set(like.value, many.valueAsNumber);
    like.value = "";
    this.note();
    this.mark();
  }

  pick(picking) {
    this.picking = picking;
    byId("pick").setAttribute("aria-pressed", picking);
    byId("map-help").textContent = picking ? "Enter selects a node to drain, or removes it." : byId("map-help").dataset.usual;
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

  drain(node) {
    this.drained.add(node);
    this.note();
    this.ask();
    byId("whatif").scrollIntoView();
  }

  mark(arrivals = new Map()) {
    this.map.suppose(this.drained, arrivals);
    const chips = [...this.drained].map((node) => make("li", {}, make("button", { type: "button", "data-key": `drained ${node}`, "aria-label": `do not drain ${node}`, onclick: () => { this.drained.delete(node); this.note(); this.mark(); } }, `${node} ×`)));
    fill(byId("drained"), chips.length ? chips : make("li", { class: "quiet" }, "none"));
    const more = [...this.extra].map(([node, many]) => make("li", {}, make("button", { type: "button", "data-key": `added ${node}`, "aria-label": `do not add ${many} like ${node}`, onclick: () => { this.extra.delete(node); this.note(); this.mark(); } }, `${many} like ${node} ×`)));
    fill(byId("added"), more.length ? more : make("li", { class: "quiet" }, "none"));
  }

  clear() {
    this.text.value = "";
    this.drained.clear();
    this.extra.clear();
    this.pick(false);
    this.note();
    this.cancel();
  }

  // Ends the question, and what the scheduler computes for it.
  cancel() {
    this.asking.abort();
    this.asked = null;
    this.waits(false);
    this.mark();
    this.compare();
    byId("whatif-answer").replaceChildren();
  }

  waits(is) {
    const button = byId("whatif-cancel");
    if (!is && document.activeElement === button) byId("whatif-try").focus();
    button.hidden = !is;
  }

  async ask() {
    const body = byId("whatif-answer");
    this.asking.abort();
    const { signal } = (this.asking = new AbortController());
    this.asked = this.question;
    this.pick(false);
    this.mark();
    this.compare();
    body.replaceChildren(quiet("loading …"));
    this.waits(true);
    const made = await this.answer(signal).catch((error) => ({ shown: [verdict("bad", error.message)], arrivals: new Map() }));
    if (signal.aborted) return;
    this.waits(false);
    this.mark(made.arrivals);
    body.replaceChildren(...made.shown);
    reachable(body);
  }

  async answer(signal) {
    const { objects } = this.text.value.trim() ? await sent("ui/objects", YAML, this.text.value, signal) : { objects: [] };
    const strange = objects.findIndex((found) => found === null || typeof found !== "object" || Array.isArray(found));
    if (strange >= 0) throw new Error(`Document ${strange + 1} is not an object of Kubernetes: paste YAML or JSON with apiVersion, kind, metadata and spec.`);
    if (!objects.length && !this.drained.size) throw new Error("There is nothing to try: paste a workload, or select nodes to drain.");
    const reply = await sent("evaluate", JSON_TYPE, JSON.stringify({ objects, drain: [...this.drained], nodes: [...this.extra].map(([like, many]) => ({ like, count: many })) }), signal);
    const arrivals = new Map();
    for (const { node } of reply.pods) if (node !== null) arrivals.set(node, (arrivals.get(node) ?? 0) + 1);
    return { arrivals, shown: this.report(reply, arrivals, objects.length) };
  }

  report({ pods, placed, unschedulable, warnings, newNodes, budgets = [] }, arrivals, written) {
    const kept = pods.filter(({ outcome }) => outcome === "forbidden" || outcome === "refused").length, gone = pods.filter(({ outcome }) => outcome === "gone").length;
    const all = placed + unschedulable, on = nodes(arrivals.size), bad = unschedulable + kept, fresh = new Set(newNodes.map(({ name }) => name));
    const title = unschedulable ? (all === 1 ? "The pod would be unschedulable" : `${count(unschedulable)} of ${count(all)} pods would be unschedulable`) : kept ? `${count(kept)} ${kept === 1 ? "pod" : "pods"} cannot be evicted` : all === 1 ? "The pod would be scheduled" : all ? `All ${count(all)} pods would be scheduled, on ${on}` : "No pod would have to be scheduled";
    const used = [...arrivals.keys()].filter((node) => fresh.has(node)).length;
    const more = [bad && placed && `${count(placed)} would be scheduled on ${on}.`, unschedulable && kept && `${count(kept)} cannot be evicted.`, gone && `${count(gone)} would be deleted.`, fresh.size && `${count(used)} of ${fresh.size === 1 ? "1 added node" : `${count(fresh.size)} added nodes`} would be used.`].filter(Boolean).join(" ");
    const order = [...pods].sort((one, other) => (one.node === null ? 0 : 1) - (other.node === null ? 0 : 1));
    const rows = order.slice(0, MOST_SHOWN).map(({ pod, node, source, outcome, message, victims = [] }) => make("tr", {}, make("td", { class: "name" }, source ? link(pod, () => this.showPod(pod)) : pod), make("td", { class: "from" }, source ?? "new"),
      make("td", { class: "wide" }, node === null ? (outcome === "waits" ? message : `${outcome}: ${message}`) : fresh.has(node) ? `${node} (added)` : link(node, () => this.showNode(node)), victims.length ? make("div", { class: "quiet" }, `${victims.join(", ")} would be evicted`) : null)));
    if (order.length > MOST_SHOWN) rows.push(make("tr", {}, make("td", { colspan: 3, class: "quiet" }, `and ${count(order.length - MOST_SHOWN)} more`)));
    const tight = budgets.filter(({ pods: covered, allowedNow }) => covered > allowedNow).map(({ budget, pods: covered, allowedNow }) => quiet(`PodDisruptionBudget ${budget} allows ${count(allowedNow)} of ${count(covered)} evictions now.`));
    if (written && !pods.length) return [verdict("warn", "This text creates no pods", ...warnings)];
    return [verdict(bad ? "bad" : "good", title, more), ...warnings.map((warning) => quiet(warning)), ...tight,
      ...(rows.length ? [part("Placement", table(["pod", "from", "node or reason"], rows, "Placement of the pods"))] : [])];
  }
}

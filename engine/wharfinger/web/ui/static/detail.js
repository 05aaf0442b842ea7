// One node, or one pod, in a dialog.

import { amount, byId, clock, count, make, meter, number, table } from "./dom.js";

const encoded = (pod) => pod.split("/").map(encodeURIComponent).join("/");

async function asked(path) {
  const answer = await fetch(path, { headers: { Accept: path.includes("format=text") ? "text/plain" : "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return path.includes("format=text") ? answer.text() : answer.json();
}

const pairs = (found) => (Object.keys(found).length ? make("table", {}, make("tbody", {}, Object.entries(found).sort().map(([key, value]) => make("tr", {}, make("td", {}, key), make("td", {}, value))))) : make("p", { class: "quiet" }, "none"));
const part = (title, ...content) => make("div", {}, make("h3", {}, title), ...content);

export class Detail {
  constructor({ colourBy }) {
    this.dialog = byId("detail");
    this.dialog.addEventListener("close", () => this.back());
    this.colourBy = colourBy;
    byId("detail-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  async show(title, content) {
    const body = byId("detail-body"), head = byId("detail-title");
    head.textContent = title;
    body.replaceChildren(make("p", { class: "quiet" }, "asking …"));
    if (!this.dialog.open) {
      this.from = document.activeElement;
      this.dialog.showModal();
    }
    head.focus(); // and no button: a key that is held would press it
    const turn = (this.turn = Symbol(title));
    try {
      const made = await content();
      if (this.turn === turn) body.replaceChildren(...made);
    } catch (error) {
      if (this.turn === turn) body.replaceChildren(make("p", {}, error.message));
    }
  }

  // The keyboard goes back to where it was; the panels may have been drawn anew meanwhile, with other buttons of the same keys.
  back() {
    const { key } = this.from.dataset, alike = [...document.querySelectorAll("[data-key]")].find((found) => found.dataset.key === key);
    (this.from.isConnected ? this.from : (alike ?? byId("map"))).focus({ preventScroll: true });
  }

  node(name, pod) {
    return this.show(name, async () => {
      const node = await asked(`ui/nodes/${encodeURIComponent(name)}`);
      const said = pod ? [part(`For ${pod}`, await this.explained(pod, name))] : [];
      return [...said, ...this.columns(node), part(`Pods · ${count(node.nPods)}`, this.pods(node))];
    });
  }

  columns(node) {
    const taints = Object.fromEntries(node.taints.map((taint) => [`${taint.key}${taint.value ? `=${taint.value}` : ""}`, taint.effect]));
    const meters = node.resources.map(({ name, requested, allocatable }) => meter(name, requested, allocatable, `${amount(name, requested)} of ${amount(name, allocatable)}`));
    const conditions = { ...node.conditions, ...(node.unschedulable ? { cordoned: "yes" } : {}) };
    return [make("div", { class: "columns" }, part("Requested", ...meters), make("div", {}, part("Conditions", pairs(conditions)), part("Taints", pairs(taints))), part("Labels", pairs(node.labels)))];
  }

  pods(node) {
    const rows = node.pods.map(({ pod, requests, priority }) => make("tr", {}, make("td", {}, make("button", { class: "link", type: "button", onclick: () => this.pod(pod) }, pod)),
      make("td", {}, Object.entries(requests).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ")), make("td", { class: "number" }, number(priority))));
    return rows.length ? table(["pod", "requests", "#priority"], rows, "Pods of the node") : make("p", { class: "quiet" }, "none");
  }

  pod(pod) {
    return this.show(pod, async () => {
      const colour = make("button", { type: "button", onclick: () => { this.from = byId("map"); this.dialog.close(); this.colourBy(pod); } }, "Colour the map by its scores");
      const past = await asked(`decisions/${encoded(pod)}`).catch(() => ({ decisions: [] }));
      return [colour, part("If it were decided now", await this.explained(pod)), ...past.decisions.slice(0, 10).map((found) => this.decided(found))];
    });
  }

  async explained(pod, node) {
    const query = node ? `&node=${encodeURIComponent(node)}` : "";
    const text = await asked(`explain/${encoded(pod)}?format=text${query}`).catch((error) => error.message);
    return make("pre", { tabindex: "0" }, text);
  }

  decided(found) {
    const outcome = found.node === null ? found.message : `placed on ${found.node}, one of ${count(found.feasible)} feasible of ${count(found.nodes)}`;
    const stages = Object.entries(found.milliseconds).map(([stage, ms]) => `${stage} ${number(ms)} ms`).join(", ");
    const said = [make("p", {}, outcome), make("p", { class: "quiet" }, `attempt ${found.attempts}, policies ${found.policyRevision.slice(0, 12)}, ${stages}`)];
    return part(`Decided at ${clock(Date.parse(found.at) / 1000)}`, ...said, ...(found.best?.length ? [this.scores(found.best)] : []));
  }

  // The score table: a row for each score, a column for each of the best nodes.
  scores(best) {
    const names = [...new Set(best.flatMap((ranked) => ranked.scores.map((score) => score.name)))];
    const rows = names.map((name) => make("tr", {}, make("td", {}, name), best.map((ranked) => {
      const score = ranked.scores.find((each) => each.name === name);
      return make("td", { class: "number" }, score ? `${number(score.points)} × ${number(score.weight)} = ${number(score.weighted)}` : "");
    })));
    rows.push(make("tr", {}, make("td", {}, make("strong", {}, "total")), best.map((ranked) => make("td", { class: "number" }, make("strong", {}, ranked.totals.map(number).join(" / "))))));
    return table(["score: points × weight", ...best.map((ranked) => `#${ranked.node}`)], rows, "Scores of the best nodes");
  }
}

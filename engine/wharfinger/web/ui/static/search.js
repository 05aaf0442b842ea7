// Finds nodes on the map and pods in the cluster; `/` leads here from everywhere.

import { byId, make, nodes } from "./dom.js";

const PAUSE = 250;

export class Search {
  constructor({ map, showPod, noted }) {
    Object.assign(this, { map, showPod, field: byId("find"), results: byId("results"), timer: 0, turn: null });
    this.field.addEventListener("input", () => { noted(this.field.value); this.find(); });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") (this.results.querySelector("button") ?? byId("map")).focus();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.field.focus();
      this.field.select();
    });
  }

  show(text) {
    if (text === this.field.value) return;
    this.field.value = text;
    this.find();
  }

  find() {
    this.map.find(this.field.value);
    this.count();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.pods(), PAUSE);
  }

  count() {
    const { matched } = this.map;
    byId("found").textContent = matched ? `${nodes(matched.size)} found` : "";
  }

  async pods() {
    const text = this.field.value.trim(), turn = (this.turn = Symbol(text));
    const answer = text ? await fetch(`ui/pods?find=${encodeURIComponent(text)}`).catch(() => null) : null;
    const found = answer?.ok ? await answer.json() : { pods: [] };
    if (this.turn !== turn) return;
    this.results.hidden = !found.pods.length;
    this.results.replaceChildren(...found.pods.map((pod) => make("li", {}, make("button", { class: "link", type: "button", "data-key": `found ${pod}`, onclick: () => this.showPod(pod) }, pod))),
      ...(found.more ? [make("li", { class: "quiet" }, "and more")] : []));
  }
}

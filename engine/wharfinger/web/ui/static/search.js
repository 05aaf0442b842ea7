// Finds nodes on the map and pods in the cluster; `/` leads here from everywhere.

import { ask } from "./ask.js";
import { byId, count, make, nodes } from "./dom.js";

const PAUSE = 250;

export class Search {
  constructor({ map, showPod, noted }) {
    Object.assign(this, { map, showPod, field: byId("find"), results: byId("results"), timer: 0, asking: new AbortController(), pods: "" });
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
    clearTimeout(this.timer);
    this.asking.abort();
    this.pods = "";
    this.count();
    this.timer = setTimeout(() => this.findPods(), PAUSE);
  }

  count() {
    const { matched } = this.map;
    byId("found").textContent = matched ? `${nodes(matched.size)} found${this.pods}` : "";
  }

  async findPods() {
    const text = this.field.value.trim(), { signal } = (this.asking = new AbortController());
    const found = text ? await ask(`ui/pods?find=${encodeURIComponent(text)}`, { signal }).catch((error) => ({ pods: [], trouble: error.message })) : { pods: [] };
    if (signal.aborted) return;
    const amount = found.pods.length;
    this.pods = found.trouble ? `; pods: ${found.trouble}` : `, ${found.more ? "more than " : ""}${count(amount)} ${amount === 1 ? "pod" : "pods"}`;
    this.count();
    this.results.hidden = !found.pods.length;
    this.results.replaceChildren(...found.pods.map((pod) => make("li", {}, make("button", { class: "link", type: "button", "data-key": `found ${pod}`, onclick: () => this.showPod(pod) }, pod))),
      ...(found.more ? [make("li", { class: "quiet" }, "and more")] : []));
  }
}

// The dialog: it shows the pod, the group or the node that the address names.

import { ask, inPath } from "./ask.js";
import { fill } from "./content.js";
import { byId, clock, shown } from "./dom.js";
import { group } from "./group.js";
import { node } from "./node.js";
import { pod } from "./pod.js";
import { verdict } from "./verdict.js";

export class Detail {
  constructor({ showNode, showPod, showGroup, colourBy, drain, closed }) {
    Object.assign(this, { dialog: byId("detail"), showNode, showPod, showGroup, colourBy, drain, shown: null, asking: new AbortController() });
    this.dialog.addEventListener("close", () => {
      if (this.dialog.open) return; // it was opened again meanwhile
      this.shown = null;
      this.asking.abort(); // nobody waits for the answer
      byId("detail-body").replaceChildren(); // and what was said is not shown when the dialog is opened again
      this.back();
      closed();
    });
    byId("detail-close").addEventListener("click", () => this.dialog.close());
    byId("detail-again").addEventListener("click", () => this.fill());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  // `view` names a pod, a group, or a node and perhaps the pod that it is looked at for; none of them closes the dialog.
  show(view) {
    const wanted = view.pod ? { title: view.pod, content: (signal) => this.pod(view.pod, signal) } : view.group ? { title: `group ${view.group}`, content: (signal) => this.group(view.group, signal) } : view.node ? { title: view.node, content: (signal) => this.node(view.node, view.for, signal) } : null;
    if (!wanted) return this.dialog.open && this.dialog.close();
    const key = JSON.stringify([view.pod, view.group, view.node, view.for]);
    if (this.shown?.key === key) return undefined;
    this.shown = { ...wanted, key };
    return this.fill();
  }

  async fill() {
    const { content, key, title } = this.shown, body = byId("detail-body"), head = byId("detail-title");
    if (body.dataset.about !== key) body.replaceChildren();
    body.dataset.about = key;
    head.textContent = shown(title);
    byId("detail-time").textContent = "loading …";
    if (!this.dialog.open) {
      this.from = this.opener = document.activeElement;
      this.dialog.showModal();
    }
    head.focus(); // and no button: a key that is held would press it
    this.asking.abort();
    const { signal } = (this.asking = new AbortController());
    const made = await content(signal).catch((error) => [verdict("warn", error.message)]);
    if (signal.aborted) return;
    fill(body, ...made);
    byId("detail-time").textContent = `as of ${clock(Date.now() / 1000)}`;
  }

  // The keyboard goes back to where it was; the panels may have been drawn again meanwhile, with other buttons of the same keys.
  // The event of closing comes later: who has moved on by then keeps the place.
  back() {
    const { activeElement: at } = document;
    if (![document.body, this.opener].includes(at) && !this.dialog.contains(at)) return;
    const { key } = this.from.dataset, alike = [...document.querySelectorAll("[data-key]")].find((found) => found.dataset.key === key);
    const before = this.from.isConnected && this.from !== document.body ? this.from : (alike ?? byId("map"));
    before.focus({ preventScroll: true });
  }

  async pod(name, signal) {
    if (name.split("/").length !== 2) throw new Error(`"${name}" is not a pod: expected its namespace and its name, such as shop/web.`);
    const path = inPath(name);
    const answer = await ask(`explain/${path}`, { signal }).then((reply) => ({ reply }), (error) => ({ trouble: error.message }));
    const none = answer.reply && answer.reply.lastDecision === null;
    const past = none ? { decisions: [] } : await ask(`decisions/${path}`, { signal }).catch(() => ({ decisions: [] }));
    return pod({ ...answer, past: past.decisions.slice(0, 10), showNode: (node) => this.showNode(node, name), showGroup: this.showGroup, colour: () => this.colour("pod", name) });
  }

  async group(name, signal) {
    if (name.split("/").length !== 2) throw new Error(`"${name}" is not a group: expected its namespace and its name, such as shop/web.`);
    const reply = await ask(`explain/group/${inPath(name)}`, { signal });
    return group({ reply, showNode: this.showNode, showPod: this.showPod, colour: () => this.colour("group", name) });
  }

  colour(what, name) {
    this.leave(() => this.colourBy[what](name));
    byId("cluster").scrollIntoView();
  }

  // Goes on at another place than where the dialog was opened.
  leave(action, at = "map") {
    this.from = byId(at);
    action();
  }

  async node(name, podName, signal) {
    const reply = await ask(`ui/nodes/${inPath(name)}`, { signal });
    const about = podName ? await Promise.resolve().then(() => ask(`explain/${inPath(podName)}?node=${encodeURIComponent(name)}`, { signal })).then((found) => ({ found }), (error) => ({ trouble: error.message })) : null;
    const drain = await this.drain; // a promise, as the page asks first if the scheduler answers such questions
    return node({ reply, forPod: about && { name: podName, ...about }, showPod: this.showPod, drain: drain && (() => this.leave(() => drain(name), "whatif-try")) });
  }
}

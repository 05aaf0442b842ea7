// The dialog: it shows the pod, the group or the node that the address names.

import { byId, clock } from "./dom.js";
import { group } from "./group.js";
import { node } from "./node.js";
import { pod } from "./pod.js";
import { verdict } from "./verdict.js";

const encoded = (name) => name.split("/").map(encodeURIComponent).join("/");

async function asked(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${answer.status}`);
  return answer.json();
}

export class Detail {
  constructor({ showNode, showPod, showGroup, colourBy, closed }) {
    Object.assign(this, { dialog: byId("detail"), showNode, showPod, showGroup, colourBy, shown: null });
    this.dialog.addEventListener("close", () => {
      if (this.dialog.open) return; // it was opened again meanwhile
      this.shown = null;
      this.back();
      closed();
    });
    byId("detail-close").addEventListener("click", () => this.dialog.close());
    byId("detail-again").addEventListener("click", () => this.fill());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  // `view` names a pod, a group, or a node and perhaps the pod that it is looked at for; none of them closes the dialog.
  show(view) {
    const wanted = view.pod ? { title: view.pod, content: () => this.pod(view.pod) } : view.group ? { title: `group ${view.group}`, content: () => this.group(view.group) } : view.node ? { title: view.node, content: () => this.node(view.node, view.for) } : null;
    if (!wanted) return this.dialog.open && this.dialog.close();
    const key = JSON.stringify([view.pod, view.group, view.node, view.for]);
    if (this.shown?.key === key) return undefined;
    this.shown = { ...wanted, key };
    return this.fill();
  }

  async fill() {
    const { title, content } = this.shown, body = byId("detail-body"), head = byId("detail-title");
    head.textContent = title;
    byId("detail-time").textContent = "asking …";
    if (!this.dialog.open) {
      this.from = this.opener = document.activeElement;
      this.dialog.showModal();
    }
    head.focus(); // and no button: a key that is held would press it
    const turn = (this.turn = Symbol(title));
    const made = await content().catch((error) => [verdict("warn", error.message)]);
    if (this.turn !== turn) return;
    body.replaceChildren(...made);
    byId("detail-time").textContent = `as of ${clock(Date.now() / 1000)}`;
    this.dialog.scrollTop = 0;
  }

  // The keyboard goes back to where it was; the panels may have been drawn again meanwhile, with other buttons of the same keys.
  // The event of closing comes later: who has moved on by then keeps the place.
  back() {
    if (![document.body, this.opener].includes(document.activeElement)) return;
    const { key } = this.from.dataset, alike = [...document.querySelectorAll("[data-key]")].find((found) => found.dataset.key === key);
    const before = this.from.isConnected && this.from !== document.body ? this.from : (alike ?? byId("map"));
    before.focus({ preventScroll: true });
  }

  async pod(name) {
    const answer = await asked(`explain/${encoded(name)}`).then((reply) => ({ reply }), (error) => ({ trouble: error.message }));
    const none = answer.reply && answer.reply.lastDecision === null;
    const past = none ? { decisions: [] } : await asked(`decisions/${encoded(name)}`).catch(() => ({ decisions: [] }));
    return pod({ ...answer, past: past.decisions.slice(0, 10), showNode: (node) => this.showNode(node, name), showGroup: this.showGroup, colour: () => this.colour("pod", name) });
  }

  async group(name) {
    const reply = await asked(`explain/group/${encoded(name)}`);
    return group({ reply, showNode: this.showNode, showPod: this.showPod, colour: () => this.colour("group", name) });
  }

  colour(what, name) {
    this.from = byId("map");
    this.colourBy[what](name);
    byId("cluster").scrollIntoView();
  }

  async node(name, podName) {
    const reply = await asked(`ui/nodes/${encodeURIComponent(name)}`);
    const about = podName ? await asked(`explain/${encoded(podName)}?node=${encodeURIComponent(name)}`).then((found) => ({ found }), (error) => ({ trouble: error.message })) : null;
    return node({ reply, forPod: about && { name: podName, ...about }, showPod: this.showPod });
  }
}

// One group: what becomes of it, what each domain takes, what stops the rest, and its members.

import { count, make, table } from "./dom.js";
import { link, part, quiet, sentences, verdict } from "./verdict.js";

const TONES = { placed: "good", "has a place": "good", "placed in part": "good", "waits for members": "warn", "not found": "warn" };

export function group({ reply, showNode, showPod, colour }) {
  return [verdict(TONES[reply.state] ?? "bad", reply.state, reply.message), make("ul", { class: "sentences quiet" }, reply.terms.map((text) => make("li", {}, text))),
    make("p", { class: "actions" }, make("button", { type: "button", onclick: colour }, "Show it on the map")),
    ...(reply.domains.length ? [part("Members that fit in each domain", domains(reply.domains), reply.omitted ? quiet(`and ${count(reply.omitted)} more`) : "")] : []),
    part(`Members · ${count(reply.members.length)}`, members(reply.members, showNode, showPod))];
}

function domains(all) {
  const rows = all.map(({ key, value, fits, wanted, reasons }) => make("tr", {}, make("td", {}, value || "the cluster", key ? make("div", { class: "quiet" }, key) : null), make("td", { class: "number" }, `${count(fits)} of ${count(wanted)}`),
    make("td", { class: "wide" }, Object.keys(reasons).length ? sentences(Object.entries(reasons).map(([reason, amount]) => `${count(amount)} × ${reason}`)) : "")));
  return table(["domain", "#fit", "why not more"], rows, "Members that fit in each domain");
}

function members(all, showNode, showPod) {
  const rows = all.map(({ pod, node, state }) => make("tr", {}, make("td", {}, link(pod, () => showPod(pod), `member ${pod}`)), make("td", {}, state), make("td", { class: "wide" }, node ? link(node, () => showNode(node), `node of member ${pod}`) : "")));
  return rows.length ? table(["pod", "state", "node"], rows, "Members of the group") : quiet("none");
}

// One pod: what becomes of it, what would have to change, the filters, the scores, and what was decided before.

import { clock, count, make, nodes, number } from "./dom.js";
import { funnel, link, part, quiet, remedies, scores, verdict } from "./verdict.js";

export function pod({ reply, past, trouble, showNode, colour }) {
  const earlier = past.map((found, index) => decided(found, showNode, !reply && index === 0));
  const before = earlier.length ? [part("Earlier decisions", ...earlier)] : [];
  if (!reply) return [verdict("warn", trouble), ...before];
  const { explanation: found } = reply;
  return [headline(reply), ...remedies(reply.remedies, showNode), notes(reply),
    make("p", { class: "actions" }, make("button", { type: "button", onclick: colour }, "Colour the map by its scores")),
    ...funnel(found), ...scores(found.top, "Scores of the best nodes", showNode), ...before];
}

export function headline({ boundTo, explanation: found }) {
  const feasible = `${count(found.feasible)} of ${nodes(found.nodes)} feasible`;
  if (boundTo) return verdict("good", `Bound to ${boundTo}`, `A new decision would choose ${found.node ?? "no node"}: ${feasible}.`);
  if (found.node === null) return found.nodes ? verdict("bad", lacks(found), found.message) : verdict("bad", "No nodes available to schedule pods");
  const ahead = found.margin === null ? "" : found.margin > 0 ? `, ${number(found.margin)} points ahead of ${found.top[1]?.node}` : `, equal to ${found.top[1]?.node}`;
  const ties = found.ties > 1 ? `${nodes(found.ties)} are equally good; a stable hash chooses.` : "";
  return verdict("good", `Would be scheduled on ${found.node} now`, `${feasible}${ahead}.`, ties);
}

// The reason that stops most nodes, in a few words.
function lacks({ steps, nodes: all }) {
  const reasons = steps.flatMap((step) => Object.entries(step.reasons)).sort((one, other) => other[1] - one[1]);
  return reasons.length ? `0/${count(all)} nodes are available: ${reasons[0][0]}${reasons.length > 1 ? `, and ${count(reasons.length - 1)} more ${reasons.length === 2 ? "reason" : "reasons"}` : ""}` : `0/${count(all)} nodes are available`;
}

export function notes({ notes: own, explanation: { policies, notes: said } }) {
  const lines = [...own, ...said, policies.length ? `governed by ${policies.join(", ")}` : "no policy governs it"];
  return make("ul", { class: "sentences quiet" }, lines.map((line) => make("li", {}, line)));
}

function decided(found, showNode, open) {
  const at = clock(Date.parse(found.at) / 1000), stages = Object.entries(found.milliseconds).map(([stage, ms]) => `${stage} ${number(ms)} ms`).join(", ");
  const outcome = found.node === null ? found.result : `${found.result}: ${found.node}`;
  return make("details", { open }, make("summary", {}, make("span", { class: "why" }, `${at} ${outcome}`), make("span", { class: "quiet" }, `attempt ${found.attempts}`)),
    make("div", { class: "inner" }, found.node === null ? make("p", {}, found.message) : make("p", {}, "placed on ", link(found.node, () => showNode(found.node)), `, one of ${count(found.feasible)} feasible of ${nodes(found.nodes)}`),
      quiet(`policies ${found.policyRevision.slice(0, 12)}, ${stages}`), ...(found.best?.length ? scores(found.best, "Scores then") : [])));
}

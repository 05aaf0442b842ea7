// One node: whether it takes pods, what it means for a pod that was looked at, and what is on it.

import { amount, count, make, meter, number, share, table } from "./dom.js";
import { devices } from "./devices.js";
import { folded, link, part, quiet, remedies, scores, sentences, verdict } from "./verdict.js";

const pairs = (found) => (Object.keys(found).length ? make("table", { class: "pairs" }, make("tbody", {}, Object.entries(found).sort().map(([key, value]) => make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, value))))) : quiet("none"));

export function node({ reply, forPod, showPod, drain }) {
  const parts = [headline(reply)];
  if (forPod) parts.push(...aboutPod(reply, forPod, showPod));
  if (drain) parts.push(make("p", { class: "actions" }, make("button", { type: "button", onclick: drain }, "What if it is drained?")));
  const taints = Object.fromEntries(reply.taints.map((taint) => [`${taint.key}${taint.value ? `=${taint.value}` : ""}`, taint.effect]));
  const meters = reply.resources.map(({ name, requested, allocatable }) => meter(name, requested, allocatable, `${amount(name, requested)} of ${amount(name, allocatable)}`));
  return [...parts, make("div", { class: "columns" }, part("Requested", ...meters), part("Conditions and taints", pairs({ ...reply.conditions, ...taints }))),
    ...devices(reply.devices, showPod),
    part(`Pods · ${count(reply.nPods)}`, pods(reply, showPod)), part("Labels", pairs(reply.labels))];
}

function headline({ conditions, unschedulable, taints, nPods, resources }) {
  const fullest = resources.filter(({ requested, allocatable }) => requested > 0 && allocatable > 0).map(({ name, requested, allocatable }) => [requested / allocatable, name]).sort((one, other) => other[0] - one[0])[0];
  const held = `${count(nPods)} ${nPods === 1 ? "pod" : "pods"}${fullest ? `; most requested: ${fullest[1]}, ${share(fullest[0])}` : ""}`;
  const ready = conditions.Ready === undefined || conditions.Ready === "True";
  if (!ready) return verdict("bad", `Not ready: the condition Ready is ${conditions.Ready}`, held);
  if (unschedulable) return verdict("warn", "Cordoned: no new pods are scheduled here", held);
  const closed = taints.filter(({ effect }) => effect !== "PreferNoSchedule");
  if (closed.length) return verdict("warn", `Only for pods that tolerate ${closed.map(({ key }) => key).join(", ")}`, held);
  return verdict("good", "Ready", held);
}

function aboutPod(reply, { name, found, trouble }, showPod) {
  if (!found) return [verdict("warn", `For ${name}: ${trouble}`)];
  const [report] = found.explanation.asked, best = found.explanation.top[0], against = report.verdicts.filter(({ sentences: said }) => said.length);
  const ahead = best && report.totals.length ? best.totals[0] - report.totals[0] : 0;
  const title = against.length ? `rejected by ${count(against.length)} ${against.length === 1 ? "filter" : "filters"}` : report.node === found.explanation.node ? "the best of all nodes" : `feasible, ${number(ahead)} points behind ${best.node}`;
  const passed = report.verdicts.length - against.length;
  const why = against.map(({ rule, sentences: said, values }) => make("div", { class: "card" }, make("strong", {}, rule), sentences(said), values.length ? make("pre", { tabindex: "0" }, values.join("\n")) : null));
  return [verdict(against.length ? "bad" : "good", `For ${name}: ${title}`), make("p", { class: "actions" }, link(name, () => showPod(name))), ...remedies(found.remedies.filter(({ node: of }) => of === reply.name)),
    ...(why.length ? [part("Filters that reject it", ...folded(why, (some) => make("div", { class: "cards" }, some)), passed ? quiet(`${count(passed)} ${passed === 1 ? "filter accepts" : "filters accept"} it`) : null)] : []),
    ...scores(report.totals.length ? [report, ...(best && best.node !== report.node ? [best] : [])] : [], "Scores beside the best node")];
}

function pods(reply, showPod) {
  const rows = reply.pods.map(({ pod, requests, priority }) => make("tr", {}, make("td", { class: "of" }, link(pod, () => showPod(pod), `pod of node ${pod}`)),
    make("td", {}, Object.entries(requests).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ")), make("td", { class: "number" }, number(priority))));
  if (reply.nPods > rows.length) rows.push(make("tr", {}, make("td", { colspan: 3, class: "quiet" }, `and ${count(reply.nPods - rows.length)} more`)));
  return rows.length ? table(["pod", "requests", "#priority"], rows, "Pods of the node") : quiet("none");
}

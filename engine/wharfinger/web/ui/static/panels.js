// All panels except the map: each is drawn again from the last message.

import { renew } from "./content.js";
import { amount, byId, clock, count, make, meter, milliseconds, number, share, since, table, when } from "./dom.js";
import { notice } from "./notice.js";

const STATES = { active: "good", shadow: "", kept: "bad", refused: "bad", suspended: "bad", off: "" };
const RELOADS = { accepted: "good", refused: "bad", removed: "warn", warned: "warn", lost: "bad", "read again": "good" };
const RESULTS = { scheduled: "good", unschedulable: "warn", error: "bad" };

const badge = (text, kind) => make("span", { class: `badge ${kind ?? ""}` }, text);
const body = (id) => byId(id).querySelector(".body");
const nothing = (text) => make("p", { class: "quiet" }, text);
const cell = (content, name) => make("td", { class: name }, content ?? "");

export function summary(reply) {
  byId("version").textContent = reply.version;
  const role = byId("role");
  role.textContent = !reply.connected ? "waiting for the API server" : reply.trouble ? "API server unreachable" : reply.leads ? "leader" : "standby";
  role.className = `badge ${reply.trouble ? "bad" : reply.connected && reply.leads ? "good" : "warn"}`;
  role.title = reply.trouble ?? reply.identity ?? "";
  health.server = reply.connected ? [reply.trouble ? ["API server", "bad", reply.trouble] : ["API server", "good", `answered ${reply.silence} s ago`],
    ...(reply.missing.length ? [["not listed yet", "bad", reply.missing.join(", ")]] : [])] : [["API server", "warn", "has not answered yet"]];
  healthy();
  noticed(reply);
  if (!reply.connected) return;
  const queues = reply.queues, waiting = queues.active + queues.backoff + queues.unschedulable + queues.gated + queues.in_flight;
  const counts = { nodes: reply.nodes, pods: reply.pods, pending: waiting, active: queues.active, unschedulable: queues.unschedulable, binding: reply.binding };
  renew(byId("counts"), () => Object.entries(counts).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, count(value)))));
  renew(byId("resources"), () => reply.resources.map(({ name, requested, allocatable }) => meter(name, requested, allocatable, `${share(allocatable ? requested / allocatable : 0)} of ${amount(name, allocatable)}`)));
}

// What only a scheduler with a connection sends.
export function unknown() {
  for (const id of ["counts", "resources"]) renew(byId(id), () => []);
  byId("pending-title").textContent = "Pending pods";
  renew(body("pending"), () => nothing("The API server has not answered yet."));
  byId("groups").hidden = true;
}

// The API server and each metric of a policy: what is well is a word, what is not says why.
const health = { server: [], metrics: [] };

const MOST_METRICS = 6;

function healthy() {
  const { server, metrics } = health, well = metrics.filter(([, tone]) => tone === "good"), ill = metrics.filter(([, tone]) => tone !== "good");
  const few = metrics.length <= MOST_METRICS, more = ill.length - MOST_METRICS;
  const shown = few ? metrics : [...ill.slice(0, MOST_METRICS), ...(more > 0 ? [[`${count(more)} more metrics`, "bad", "the policies below say why"]] : []),
    ...(well.length ? [[well.length === 1 ? "1 metric" : `${count(well.length)} metrics`, "good", `fresh: ${well.map(([name]) => name).join(", ")}`]] : [])];
  const all = [...server, ...shown], isWell = ([, tone]) => tone === "good";
  renew(byId("health"), () => [...all.filter((each) => !isWell(each)), ...all.filter(isWell)].map(([name, tone, why]) => make("li", { class: `badge ${tone}`, title: why }, name, make("span", { class: tone === "good" ? "unseen" : "" }, `: ${why}`))));
}

// The scripts of a page stay those that it was opened with.
let openedWith = null;

function noticed({ version, connected, leads, leader, identity }) {
  openedWith ??= version;
  notice("standby", connected && !leads ? `This process (${identity}) is on standby and schedules nothing${leader ? `: the leader is ${leader}. Its page shows the decisions.` : " until it is elected."}` : "");
  notice("version", version === openedWith ? "" : `The scheduler is now version ${version}, and this page is of version ${openedWith}. Reload it.`);
}

function metricsOf(policies) {
  return policies.flatMap((policy) => policy.metrics.map(({ name, fresh, suspendedSince, failure, message }) => {
    const tone = suspendedSince ? "bad" : fresh === null || failure ? "warn" : "good";
    return [`${policy.name}/${name}`, tone, message.replace(`metric \`${name}\` `, "").replace(/^is /, "")];
  }));
}

// Opened groups stay open.
const opened = new Set();

export function pending(reply, now, chosen, { showPod, choose }) {
  byId("pending-title").textContent = reply.total ? `Pending pods · ${count(reply.total)}` : "Pending pods";
  const build = () => reply.groups.map((group) => {
    const why = group.missing || ({ active: "ready to be scheduled", gated: "held by scheduling gates", "in flight": "being scheduled", backoff: "in backoff until the next attempt" }[group.queue] ?? group.queue);
    const key = `${group.profile} ${group.queue} ${why}`;
    const rows = group.pods.map((pod) => make("tr", {}, cell(make("button", { class: "link", type: "button", "data-key": `pending ${pod.pod}`, onclick: () => showPod(pod.pod) }, pod.pod)),
      cell(count(pod.attempts), "number"), cell(number(pod.priority), "number"), cell(since(now - pod.since), "number")));
    if (group.count > group.pods.length) rows.push(make("tr", {}, make("td", { colspan: 4, class: "quiet" }, `and ${count(group.count - group.pods.length)} more`)));
    return make("details", { open: opened.has(key), ontoggle: (event) => (event.target.open ? opened.add(key) : opened.delete(key)) },
      make("summary", { "data-key": key }, make("span", { class: "count" }, count(group.count)), make("span", { class: "why" }, why), badge(group.queue, group.queue === "unschedulable" ? "warn" : "")),
      group.message ? make("p", { class: "said" }, group.message) : null,
      group.rejectors.length ? make("p", { class: "said" }, `rejected by ${group.rejectors.join(", ")}`) : null,
      group.namespaces.length > 1 ? make("p", { class: "said" }, "in ", group.namespaces.flatMap(({ namespace, count: some }, index) => [index ? ", " : "",
        make("button", { class: "link", type: "button", "data-key": `${key} in ${namespace}`, "aria-label": `only namespace ${namespace}`, onclick: () => choose({ namespace }) }, namespace), ` ${count(some)}`]), group.moreNamespaces ? ` and ${count(group.moreNamespaces)} more` : null) : null,
      make("table", {}, make("thead", {}, make("tr", {}, ["pod", "attempts", "priority", "pending for"].map((head, index) => make("th", { scope: "col", class: index ? "number" : undefined }, head)))), make("tbody", {}, rows)));
  });
  const omitted = () => (reply.omitted ? [nothing(`and ${count(reply.omitted)} more reasons`)] : []);
  const list = () => {
    const made = make("div", { class: "scroll", role: "group", "aria-label": "Pending pods by reason", "data-key": "pending" }, build(), omitted());
    made.style.setProperty("--digits", Math.max(...reply.groups.map((group) => count(group.count).length))); // all reasons begin below each other
    return made;
  };
  renew(body("pending"), () => (reply.groups.length ? list() : nothing(chosen ? "No pending pods match the filters." : "No pending pods.")));
}

export function decisions({ latest }, chosen, showPod, showNode) {
  const rows = () => latest.map((found) => make("tr", {}, cell(clock(Date.parse(found.at) / 1000), "time"),
    cell(make("button", { class: "link", type: "button", "data-key": `decision ${found.uid} ${found.attempts}`, onclick: () => showPod(found.pod) }, found.pod), "name"),
    cell(badge(found.result, RESULTS[found.result])),
    cell(found.node === null ? make("div", { class: "clamp", title: found.message }, found.message) : make("button", { class: "link", type: "button", "data-key": `node of ${found.uid} ${found.attempts}`, onclick: () => showNode(found.node) }, found.node), "wide"),
    cell(`${count(found.feasible)} of ${count(found.nodes)}`, "number"), cell(found.milliseconds.decide === undefined ? "" : milliseconds(found.milliseconds.decide), "number")));
  renew(body("decisions"), () => (latest.length ? table(["time", "pod", "result", "node or reason", "#feasible", "#duration"], rows(), "Recent decisions") : nothing(chosen ? "No recent decisions match the filters." : "No decisions yet.")));
}

function findings(policy) {
  const found = policy.diagnostics.map(({ severity, code, message, file, line, column, help }) => make("p", { class: "said" },
    badge(severity, severity === "error" ? "bad" : "warn"), ` ${line ? `${file.split("/").pop()}:${line}:${column} ` : ""}${code}: ${message}`, help ? make("span", { class: "quiet" }, ` (${help})`) : null));
  found.push(...policy.now.map(({ message }) => make("p", { class: "said" }, badge("now", "warn"), ` ${message}`)));
  found.push(...policy.metrics.map(({ message, suspendedSince }) => make("p", { class: "said" }, suspendedSince ? badge("suspended", "warn") : null, ` ${message}`)));
  if (policy.omittedDiagnostics) found.push(nothing(`and ${count(policy.omittedDiagnostics)} more`));
  return found;
}

const shadowed = ({ agreed, disagreed, errors }) => `${count(disagreed)} of ${count(agreed + disagreed)} decisions would have been different${errors ? `; ${count(errors)} failed with an error` : ""}`;

// Every state but "active" with its number, in the order of the list.
function states(all) {
  const amounts = new Map();
  for (const { state } of all) if (state !== "active") amounts.set(state, (amounts.get(state) ?? 0) + 1);
  return [`Policies · ${count(all.length)}`, [...amounts].map(([state, amount]) => `${count(amount)} ${state}`).join(", ")].filter(Boolean).join(": ");
}

export function policies({ policies: all, sources, shadows }) {
  byId("policies-title").textContent = all.length ? states(all) : "Policies";
  health.metrics = metricsOf(all);
  healthy();
  const compared = new Map(shadows.map((report) => [report.policy, report]));
  const rows = () => all.flatMap((policy) => {
    const report = policy.state === "shadow" ? compared.get(policy.name) : undefined;
    const said = [...(report ? [make("p", { class: "said" }, shadowed(report))] : []), ...findings(policy)]; // they have the whole width
    const first = make("tr", { class: said.length ? "begun" : undefined }, cell([make("strong", {}, policy.name ?? "?"), make("div", { class: "quiet" }, policy.authority, " · ", policy.source, " · ", policy.key)], "wide"), cell(badge(policy.state, STATES[policy.state])),
      cell((policy.revision ?? "").slice(0, 8), "id"), cell(policy.activeSince ? when(Date.parse(policy.activeSince) / 1000) : "", "time"));
    return said.length ? [first, make("tr", {}, make("td", { colspan: 4 }, said))] : [first];
  });
  const troubles = () => sources.filter((source) => source.lost || source.notes.length).map((source) => make("p", {}, badge(source.lost ? "lost" : "note", source.lost ? "bad" : "warn"), ` ${source.name}: ${source.lost || source.notes.join("; ")}`));
  renew(body("policies"), () => [...troubles(), all.length ? table(["policy", "state", "revision", "since"], rows(), "Policies") : nothing("No policies: pods are scheduled as by kube-scheduler.")]);
}

export function reloads(all) {
  const items = () => all.map((each) => make("li", {},
    make("div", { class: "line" }, badge(each.what, RELOADS[each.what]), make("strong", {}, each.policy || each.source), make("span", { class: "quiet" }, each.policy ? each.key : ""),
      make("span", { class: "id" }, each.revision.slice(0, 8)), make("time", {}, when(each.at))),
    each.kept ? make("p", { class: "said" }, "The former version stays active.") : null, each.report ? make("pre", { tabindex: "0", "data-key": `report ${each.at} ${each.key}` }, each.report.trimEnd()) : null));
  renew(body("reloads"), () => (all.length ? make("ol", { class: "scroll plain", "aria-label": "Reloads of policies", "data-key": "reloads" }, items()) : nothing("No policies have been loaded.")));
}

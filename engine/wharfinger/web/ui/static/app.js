// Hands on what the scheduler says, and shows what the address says.

import { Address } from "./address.js";
import { Choices, chosen } from "./choices.js";
import { byId, count, nodes, shown } from "./dom.js";
import { Detail } from "./detail.js";
import { groups } from "./groups.js";
import { history } from "./history.js";
import { ClusterMap } from "./map.js";
import * as panels from "./panels.js";
import { Search } from "./search.js";
import { Stream } from "./stream.js";
import { WhatIf } from "./whatif.js";

const POD = "pod:", GROUP = "group:";
const NO_DIALOG = { pod: "", node: "", for: "", group: "" };
let now = Date.now() / 1000, seen = null;

const address = new Address(show);
let { coloring } = address.view, query = chosen(address.view);
const showNode = (node, pod) => address.go({ ...NO_DIALOG, node, for: pod ?? (coloring.startsWith(POD) ? coloring.slice(POD.length) : "") });
const showPod = (pod) => address.go({ ...NO_DIALOG, pod });
const showGroup = (group) => address.go({ ...NO_DIALOG, group });
const colourBy = { pod: (pod) => address.go({ ...NO_DIALOG, coloring: POD + pod }), group: (group) => address.go({ ...NO_DIALOG, coloring: GROUP + group }) };
const map = new ClusterMap(byId("map"), byId("legend"), { under: (text) => { if (byId("under").textContent !== text) byId("under").textContent = text; }, opened: (node) => whatIf.taken(node) || showNode(node) });
const whatIf = new WhatIf({ map, noted: (changes) => address.note(changes), showNode: (node) => showNode(node), showPod });
const drain = (node) => { address.go(NO_DIALOG); whatIf.drain(node); };
const detail = new Detail({ showNode, showPod, showGroup, colourBy, drain: whatIf.offered.then((is) => (is ? drain : null)), closed: () => address.go(NO_DIALOG) });

const search = new Search({ map, showPod, noted: (find) => address.note({ find }) });
const choices = new Choices((changes) => address.go(changes));

const handlers = {
  tiles: (value) => { map.tiles(value); counted(value.names.length); },
  nodes: (value) => { map.changeNodes(value); counted(value.count); },
  values: (value) => { trouble(""); map.color(value); painted(); },
  change: (value) => map.change(value),
  flags: (value) => map.flagged(value),
  trouble: (value) => { map.blank(); trouble(value.sentence); },
  summary: (value) => { now = value.now; panels.summary(value); if (!value.connected) unknown(); choices.colorings(value.colorings ?? [], coloring); },
  pending: (value) => { choices.namespaces(value.namespaces); panels.pending(value, now, query !== "", { showPod, choose: (changes) => address.go(changes) }); },
  groups: (value) => groups(value, now, query !== "", { showGroup, colour: colourBy.group }),
  decisions: (value) => { choices.namespaces(value.latest.map(({ pod }) => pod.split("/")[0])); rate(value.seen); panels.decisions(value, query !== "", showPod, showNode); },
  policies: (value) => { choices.policies(value.policies); panels.policies(value); },
  reloads: panels.reloads,
  history,
  alive: () => {},
};
const stream = new Stream({ path: () => `ui/events?coloring=${encodeURIComponent(coloring)}${query}`, handlers, trouble });

// In one column, what waits stands right below the map.
const narrow = matchMedia("(max-width: 60rem)");
function arrange() {
  const panels = [byId("groups"), byId("pending")];
  if (narrow.matches) byId("cluster").after(...panels);
  else byId("policies").before(...panels);
}
narrow.addEventListener("change", arrange);
arrange();

// The playground is there if a setting says so.
fetch("ui/playground", { method: "HEAD" }).then((answer) => { byId("playground").hidden = !answer.ok; }, () => {});

// A scheduler that has begun again knows nothing of the cluster yet: what the former one knew is not shown as if it were so.
function unknown() {
  handlers.tiles({ names: [], zones: [], zoneNames: [] });
  byId("cluster-title").textContent = "Cluster";
  panels.unknown();
}

function counted(amount) {
  search.count();
  byId("cluster-title").textContent = `Cluster · ${nodes(amount)}`;
  byId("map").setAttribute("aria-label", nodes(amount));
}

// For measurements: the first picture of the cluster is there.
function painted() {
  if (document.documentElement.dataset.painted) return;
  performance.mark("painted");
  document.documentElement.dataset.painted = "yes";
}

function trouble(sentence) {
  byId("trouble").hidden = !sentence;
  byId("trouble").textContent = shown(sentence);
}

function rate(total) {
  if (seen !== null) byId("rate").textContent = `${count(total)} so far, ${count(Math.max(0, Math.round((total - seen.total) / Math.max(0.5, (Date.now() - seen.at) / 1000))))} in the last second`;
  seen = { total, at: Date.now() };
}

// Shows what the address says.
function show(view) {
  const other = view.coloring !== coloring || chosen(view) !== query;
  coloring = view.coloring;
  query = chosen(view);
  document.title = [view.pod || view.group || view.node, "Wharfinger"].filter(Boolean).join(" · ");
  choices.show(view);
  search.show(view.find);
  whatIf.show(view);
  if (other) stream.listen();
  detail.show(view);
}

stream.listen();
show(address.view);

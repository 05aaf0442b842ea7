// Listens to the scheduler and hands on what it says.

import { Address } from "./address.js";
import { byId, clock, count, make } from "./dom.js";
import { Detail } from "./detail.js";
import { ClusterMap } from "./map.js";
import * as panels from "./panels.js";

const POD = "pod:", SILENCE = 10_000;
const NO_DIALOG = { pod: "", node: "", for: "" };
let stream = null, heard = 0, now = Date.now() / 1000, seen = null;

const address = new Address(show);
let { shade } = address.view;
const showNode = (node, pod) => address.go({ ...NO_DIALOG, node, for: pod ?? (shade.startsWith(POD) ? shade.slice(POD.length) : "") });
const showPod = (pod) => address.go({ ...NO_DIALOG, pod });
const detail = new Detail({ showNode, showPod, colourBy: (pod) => address.go({ ...NO_DIALOG, shade: POD + pod }), closed: () => address.go(NO_DIALOG) });
const map = new ClusterMap(byId("map"), byId("legend"), { under: (text) => { byId("under").textContent = text; }, opened: (node) => showNode(node) });

const nodes = ({ names }) => `${count(names.length)} ${names.length === 1 ? "node" : "nodes"}`;

const told = {
  tiles: (value) => { map.tiles(value); found(); byId("cluster-title").textContent = `Cluster · ${nodes(value)}`; byId("map").setAttribute("aria-label", nodes(value)); },
  values: (value) => { trouble(""); map.shade(value); painted(); },
  change: (value) => map.change(value),
  flags: (value) => map.flagged(value),
  trouble: (value) => trouble(value.sentence),
  summary: (value) => { now = value.now; panels.summary(value); choices(value.shades ?? []); },
  pending: (value) => panels.pending(value, now, showPod),
  decisions: (value) => { rate(value.seen); panels.decisions(value, showPod, showNode); },
  policies: panels.policies,
  reloads: panels.reloads,
};

// For whoever measures: the first picture of the cluster is there.
function painted() {
  if (document.documentElement.dataset.painted) return;
  performance.mark("painted");
  document.documentElement.dataset.painted = "yes";
}

function trouble(sentence) {
  byId("trouble").hidden = !sentence;
  byId("trouble").textContent = sentence;
}

function choices(shades) {
  const select = byId("shade"), wanted = shades.map(({ key, title }) => [key, title]);
  if (shade.startsWith(POD)) wanted.push([shade, `score for ${shade.slice(POD.length)}`]);
  const known = [...select.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(known) !== JSON.stringify(wanted)) select.replaceChildren(...wanted.map(([key, title]) => make("option", { value: key }, title)));
  select.value = shade;
}

function rate(total) {
  if (seen !== null) byId("rate").textContent = `${count(total)} so far, ${count(Math.max(0, Math.round((total - seen.total) / Math.max(0.5, (Date.now() - seen.at) / 1000))))} in the last second`;
  seen = { total, at: Date.now() };
}

// Shows what the address says.
function show(view) {
  document.title = [view.pod || view.node, "Wharfinger"].filter(Boolean).join(" · ");
  if (view.shade !== shade) colour(view.shade);
  if (view.find !== byId("find").value) {
    byId("find").value = view.find;
    find();
  }
  detail.show(view);
}

function find() {
  map.find(byId("find").value);
  found();
}

function colour(key) {
  shade = key;
  choices([...byId("shade").options].filter((option) => !option.value.startsWith(POD)).map((option) => ({ key: option.value, title: option.text })));
  listen();
}

function found() {
  byId("found").textContent = map.matched ? `${count(map.matched.size)} found` : "";
}

const events = () => `ui/events?shade=${encodeURIComponent(shade)}`;

// A browser keeps six connections to one address: tabs that nobody sees leave theirs to the others.
function listen() {
  stream?.close();
  stream = document.hidden ? null : new EventSource(events());
  if (!stream) return;
  stream.onerror = () => live(false);
  for (const [name, tell] of Object.entries(told)) {
    stream.addEventListener(name, (event) => { live(true); tell(JSON.parse(event.data)); });
  }
}

// An EventSource does not tell what the scheduler says when it does not want another page.
async function refused() {
  const asking = new AbortController();
  stream = null;
  const answer = await fetch(events(), { signal: asking.signal }).catch(() => null);
  if (answer && !answer.ok) trouble((await answer.text()).trim() || `${answer.status}`);
  asking.abort();
}

function live(is) {
  if (is) heard = Date.now();
  const badge = byId("live"), text = is ? "live" : heard ? `no news since ${clock(heard / 1000)}` : "connecting";
  if (badge.textContent !== text) Object.assign(badge, { textContent: text, className: `badge ${is ? "good" : "bad"}` });
}

byId("shade").addEventListener("change", (event) => address.go({ shade: event.target.value }));
byId("find").addEventListener("input", (event) => { address.note({ find: event.target.value }); find(); });
document.addEventListener("visibilitychange", listen);
setInterval(() => {
  if (heard && Date.now() - heard > SILENCE) live(false);
  if (stream?.readyState === EventSource.CLOSED) refused().finally(listen);
}, 3000);
listen();
show(address.view);

// The playground: what is typed is checked, tested and tried on a cluster after a short pause.

import { fill } from "../../static/content.js";
import { byId, count, make, nodes } from "../../static/dom.js";
import { ClusterMap } from "../../static/map.js";
import { node as nodeParts } from "../../static/node.js";
import { headline, notes } from "../../static/pod.js";
import { funnel, part, quiet, remedies, scores, sentences, verdict } from "../../static/verdict.js";
import { PolicyEditor } from "./editor.js";
import * as links from "./link.js";
import { problems, tests, testsTitle } from "./results.js";

const PAUSE = 250, FIRST = "critical-off-spot", FIRST_POD = "shop/checkout-new";
const NEW_POD = `apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: main
    image: web:1
    resources: {requests: {cpu: "1", memory: 2Gi}}
`;
let layout = "", waitingPods = [], shipped = [], checkedAt = "", decision = null, timer = 0, turn = 0, opening = 0;

const reached = (path, options) => fetch(path, options).catch(() => { throw new Error("The program that serves this page does not answer. Is it still running?"); });

// An answer of the program that serves the page; an error with its sentence. `later` is what it says when too much is asked.
async function ask(path, question) {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await reached(`playground/${path}`, question === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) });
    if (answer.ok) return answer.json();
    if (answer.status !== 503 || attempt === 2) throw new Error((await answer.text()).trim() || `${answer.status}`);
    await new Promise((done) => { setTimeout(done, 1000 * (attempt + 1)); });
  }
}

const cluster = () => byId("choice").value;
const own = () => (byId("own").open ? byId("manifest").value : "");
const chosenPod = () => byId("pod").value.trim();

const editor = new PolicyEditor(byId("editor"), {
  label: "Policy text", text: "", changed: () => later(),
  complete: (text, at) => ask("complete", { text, at, cluster: cluster() }).catch(() => null),
  hover: (text, at) => ask("hover", { text, at, cluster: cluster() }).catch(() => null),
  keys: [["Shift-Alt-f", () => format()], ["Mod-Enter", () => later(0)]],
});
const map = new ClusterMap(byId("map"), byId("legend"), { under: (text) => { byId("under").textContent = text; }, opened: (name) => showNode(name) });
const goTo = (from, to) => editor.goTo(from, to);

// A sentence stays until there is another one, or none, about the same.
function trouble(sentence, about = "an answer") {
  if (!sentence && byId("trouble").dataset.about !== about) return;
  byId("trouble").dataset.about = about;
  byId("trouble").hidden = !sentence;
  byId("trouble").textContent = sentence;
}

function state(text, tone = "") {
  Object.assign(byId("state"), { textContent: text, className: `badge ${tone}` });
}

function later(pause = PAUSE) {
  clearTimeout(timer);
  timer = setTimeout(work, pause);
}

async function work() {
  const mine = (turn += 1), text = editor.text;
  if (text.length > links.LONGEST) {
    trouble(`The policy has ${count(text.length)} characters; at most ${count(links.LONGEST)} are checked here.`);
    state("too long", "bad");
    return;
  }
  state("checking");
  try {
    if (text !== checkedAt) {
      const found = await ask("check", { text });
      if (text === editor.text) { checkedAt = text; showCheck(text, found); }
    }
    if (mine === turn) await decide(mine);
    if (mine === turn) trouble("");
  } catch (error) {
    if (mine === turn) { trouble(error.message); state("no answer", "bad"); }
  }
  if (mine === turn) remember();
}

function showCheck(text, found) {
  editor.show(text, {
    tokens: found.tokens,
    found: found.found.map((each) => ({ ...each, message: `${each.code ? `${each.code}: ` : ""}${each.text}`, fixes: each.suggestion === null ? [] : [{ title: `Replace with ${each.suggestion || "nothing"}`, edits: [{ from: each.from, to: each.to, text: each.suggestion }] }] })),
  });
  const errors = found.found.filter(({ severity }) => severity === "error").length;
  byId("problems-title").textContent = `Problems · ${count(found.found.length)}`;
  fill(byId("problems").querySelector(".body"), problems(found.found, goTo));
  byId("tests-title").textContent = testsTitle(found);
  const opened = new Set([...document.querySelectorAll("#tests details[open][data-test]")].map(({ dataset }) => dataset.test));
  fill(byId("tests").querySelector(".body"), tests(found, goTo));
  for (const each of document.querySelectorAll("#tests details[data-test]")) if (opened.has(each.dataset.test)) each.open = true;
  const failed = (found.tests ?? []).filter(({ passed }) => !passed).length;
  checkedState = errors ? [`${count(errors)} ${errors === 1 ? "error" : "errors"}`, "bad"] : failed ? [`${count(failed)} ${failed === 1 ? "test fails" : "tests fail"}`, "bad"] : found.policy === null ? ["no policy", "warn"] : ["no errors", "good"];
  broken = errors > 0;
}
let checkedState = ["", ""], broken = false;

async function decide(mine) {
  const pod = own() ? "" : chosenPod(), manifest = own();
  if (!cluster() || (!pod && !manifest)) {
    state(...checkedState);
    return;
  }
  if (broken) {
    state(...checkedState);
    fill(byId("answer").querySelector(".body"), verdict("warn", "The policy has errors", "What is below, and on the map, is of the last policy without errors."), ...(decision ? answerParts(decision) : []));
    return;
  }
  const found = await ask("decide", { text: editor.text, cluster: cluster(), pod, manifest, layout }).then((answer) => ({ answer }), (error) => ({ error }));
  if (mine !== turn) return;
  state(...checkedState);
  if (found.error) {
    fill(byId("answer").querySelector(".body"), verdict("warn", "Nothing is decided", found.error.message));
    return;
  }
  decision = found.answer;
  showMap(decision);
  map.suppose(new Set(), new Map(decision.explanation.node ? [[decision.explanation.node, 1]] : []));
  fill(byId("answer").querySelector(".body"), ...answerParts(decision));
  document.documentElement.dataset.painted = "yes";
}

function showMap(found) {
  if (found.tiles) {
    layout = found.layout;
    map.tiles(found.tiles);
    map.flagged(found.flags);
    byId("cluster-title").textContent = `Cluster · ${nodes(found.tiles.names.length)}`;
    byId("map").setAttribute("aria-label", nodes(found.tiles.names.length));
  }
  map.color(found.colors);
}

function answerParts(found) {
  return [headline(found), ...difference(found), ...remedies(found.remedies, showNode), notes(found), ...funnel(found.explanation), ...scores(found.explanation.top, "Scores of the best nodes", showNode)];
}

function difference({ difference: found, explanation: { node } }) {
  if (!found) return [quiet("There is no policy: this is what Kubernetes’ own rules decide.")];
  if (found.without === node && !found.causes.length) return [quiet(`Without the policy: ${node ? "the same node" : "no node either"}.`)];
  return [part(`Without the policy: ${found.without ?? "no node"}`, sentences(found.causes))];
}

async function showNode(name) {
  const dialog = byId("detail"), body = byId("detail-body");
  byId("detail-title").textContent = name;
  body.replaceChildren(quiet("loading …"));
  if (!dialog.open) dialog.showModal();
  byId("detail-title").focus();
  const pod = own() ? "" : chosenPod();
  const found = await ask("decide", { text: broken ? "" : editor.text, cluster: cluster(), pod, manifest: own(), node: name, layout }).then((answer) => ({ answer }), (error) => ({ error }));
  if (byId("detail-title").textContent !== name) return;
  const choose = (key) => { dialog.close(); byId("pod").value = key; byId("own").open = false; later(0); };
  body.replaceChildren(...(found.error ? [verdict("warn", found.error.message)] : nodeParts({ reply: found.answer.node, forPod: { name: found.answer.explanation.pod, found: found.answer }, showPod: choose })));
}

async function format() {
  const text = editor.text, found = await ask("format", { text }).catch((error) => ({ error }));
  if (found.error) trouble(found.error.message);
  else if (found.text === null) state("not formatted: it does not parse", "warn");
  else if (text === editor.text) { editor.put(found.text); state("formatted", "good"); }
}

// The cluster with its pods. A pod that the cluster does not have is replaced by its first one.
async function open(pod = "") {
  const mine = (opening += 1);
  turn += 1; // what is still being decided is about another cluster
  try {
    const found = await ask(`clusters/${cluster()}`);
    if (mine !== opening) return;
    decision = null;
    map.suppose(new Set(), new Map());
    showMap(found);
    waitingPods = found.waiting;
    byId("pods").replaceChildren(...waitingPods.map((each) => make("option", { value: each.pod }, each.about)), ...found.placed.map((each) => make("option", { value: each }, "placed")));
    byId("pod").value = pod || (waitingPods.find((each) => each.pod === FIRST_POD) ?? waitingPods[0])?.pod || found.placed[0] || "";
    if (!byId("pod").value) fill(byId("answer").querySelector(".body"), quiet("The cluster has no pods. Write one."));
    document.documentElement.dataset.opened = cluster();
    later(0);
  } catch (error) {
    if (mine === opening) { trouble(error.message); state("no cluster", "bad"); }
  }
}

async function upload(file) {
  if (!file) return;
  state("reading the file");
  const answer = await fetch(`playground/clusters?name=${encodeURIComponent(file.name)}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file }).catch((error) => ({ ok: false, text: async () => error.message }));
  if (!answer.ok) { trouble((await answer.text()).trim(), "the file"); state("the file cannot be read", "bad"); return; }
  const { key, title } = await answer.json();
  trouble("", "the file");
  byId("choice").append(make("option", { value: key }, title));
  byId("choice").value = key;
  open();
}

const link = async () => links.written({ text: editor.text, cluster: cluster(), pod: own() ? "" : chosenPod(), manifest: own() });

async function remember() {
  const fragment = await link();
  if (`#${fragment}` !== location.hash) history.replaceState(null, "", `${location.pathname}${location.search}#${fragment}`);
}

async function copy() {
  await remember();
  const said = byId("copied");
  said.textContent = await navigator.clipboard.writeText(location.href).then(() => "copied", () => "the address of this page is the link");
  setTimeout(() => { said.textContent = ""; }, 4000);
}

async function linked() {
  try {
    const view = await links.read(location.hash);
    trouble("", "the link");
    return view;
  } catch (error) {
    trouble(error.message, "the link");
    return null;
  }
}

async function load(view) {
  editor.put(view.text);
  byId("manifest").value = view.manifest || NEW_POD;
  byId("own").open = Boolean(view.manifest);
  if ([...byId("choice").options].some(({ value }) => value === view.cluster)) byId("choice").value = view.cluster;
  await open(view.pod);
}

async function start() {
  const offered = await ask("start");
  shipped = offered.policies;
  byId("choice").append(...offered.clusters.map(({ key, title }) => make("option", { value: key }, title)));
  byId("example").append(...shipped.map(({ name }) => make("option", { value: name }, name)));
  byId("upload").hidden = byId("upload-note").hidden = !offered.uploads;
  await load((await linked()) ?? { text: shipped.find(({ name }) => name === FIRST)?.text ?? "", cluster: "", pod: "", manifest: "" });
}

byId("example").addEventListener("change", ({ target }) => {
  const found = shipped.find(({ name }) => name === target.value);
  if (found) editor.put(found.text);
});
byId("format").addEventListener("click", format);
byId("copy").addEventListener("click", copy);
byId("choice").addEventListener("change", () => open());
byId("file").addEventListener("change", ({ target }) => upload(target.files[0]));
byId("pod").addEventListener("change", () => later(0));
byId("manifest").addEventListener("input", () => later());
byId("own").addEventListener("toggle", () => later(0));
byId("question").addEventListener("submit", (event) => { event.preventDefault(); later(0); });
byId("detail-close").addEventListener("click", () => byId("detail").close());
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });
addEventListener("hashchange", async () => { const view = await linked(); if (view) load(view); });
start().catch((error) => { trouble(error.message); state("no answer", "bad"); });

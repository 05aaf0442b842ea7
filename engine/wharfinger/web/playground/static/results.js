// What is wrong with the policy, and what its tests gave, with their values.

import { count, make, number } from "../../static/dom.js";
import { quiet } from "../../static/verdict.js";

const link = (text, onclick, key) => make("button", { class: "link", type: "button", onclick, "data-key": key }, text);

export function problems(found, goTo) {
  if (!found.length) return [quiet("none")];
  return [make("ul", { class: "plain" }, found.map((each) => make("li", { class: "problem" },
    link(`${each.line}:${each.column}`, () => goTo(each.from, each.to), `problem ${each.line}:${each.column} ${each.code}`),
    make("span", { class: "what" }, make("span", { class: `badge ${each.severity === "error" ? "bad" : "warn"}` }, each.severity), " ", each.code ? `${each.code}: ` : "", each.message),
    each.help ? make("p", { class: "help" }, `help: ${each.help}`) : null)))];
}

export function testsTitle({ tests }) {
  if (!tests) return "Tests";
  const failed = tests.filter(({ passed }) => !passed).length;
  return `Tests · ${count(tests.length - failed)} passed${failed ? `, ${count(failed)} failed` : ""}`;
}

export function tests({ tests: all, coverage, uncovered, found }, goTo) {
  if (!all) return [quiet(found.some(({ severity }) => severity === "error") ? "They run when the policy has no errors." : "There is no policy yet.")];
  if (!all.length) return [quiet("The policy has no tests.")];
  const covered = make("details", {}, make("summary", {}, `coverage ${Math.floor(100 * coverage)} %`),
    make("ul", { class: "sentences" }, uncovered.map((point) => make("li", {}, link(`line ${point.line}`, () => goTo(point.from), `uncovered ${point.from}`), ` ${point.text}`))));
  return [...all.map((test) => one(test, goTo)), uncovered.length ? covered : quiet("coverage 100 %")];
}

function one({ title, from, passed, failures, placed }, goTo) {
  const mark = make("span", { class: `mark ${passed ? "pass" : "fail"}` }, passed ? "✓ passed" : "✗ failed");
  return make("details", { open: !passed, "data-test": title }, make("summary", {}, mark, make("span", { class: "why" }, title)),
    make("div", { class: "inner" }, link("Show it in the policy", () => goTo(from), `test ${from}`), failures.map((failure) => failed(failure, goTo)), placed.map(values)));
}

function failed({ from, to, line, message, details }, goTo) {
  return make("div", {}, make("p", {}, link(`line ${line}`, () => goTo(from, to), `failure ${from}`), ` ${message}`), details.length ? make("pre", { tabindex: "0" }, details.join("\n")) : null);
}

// What was decided about a pod of a test: each node with its verdict and its points.
function values({ pod, node, message, evicted, devices, policy, nodes, omitted }) {
  const own = [...new Set(nodes.flatMap(({ scores }) => scores.map(({ name }) => name)))].filter((name) => name.startsWith(`${policy}/`));
  const head = make("tr", {}, ["node", "result", ...own.map((name) => name.slice(policy.length + 1)), "total"].map((text, index) => make("th", { scope: "col", class: index > 1 ? "number" : undefined }, text)));
  const rows = nodes.map((report) => {
    const why = report.verdicts.flatMap(({ rule, sentences }) => sentences.map((text) => `${rule}: ${text}`)).join("; ");
    const points = (name) => { const part = report.scores.find((score) => score.name === name); return part ? number(part.points) : "–"; };
    return make("tr", { class: report.node === node ? "chosen" : undefined }, make("td", {}, report.node), make("td", {}, report.node === node ? "chosen" : report.passes ? "passes" : why),
      own.map((name) => make("td", { class: "number" }, report.passes ? points(name) : "–")), make("td", { class: "number" }, report.totals.length ? report.totals.map(number).join(" / ") : "–"));
  });
  const given = devices.length ? ` with ${devices.join(", ")}` : "";
  const said = node ? `${pod} → ${node}${given}${evicted.length ? `, for which ${evicted.join(", ")} leave` : ""}` : `${pod} waits: ${message}`;
  return make("div", {}, make("p", {}, said), make("table", {}, make("thead", {}, head), make("tbody", {}, rows)), omitted ? quiet(`and ${count(omitted)} more nodes`) : null);
}

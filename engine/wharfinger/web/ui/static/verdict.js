// The parts of an explanation: the verdict, what would have to change, the filters as a funnel, the scores as bars.

import { count, make, nodes, number } from "./dom.js";

const percent = (part) => `${(100 * Math.min(1, Math.max(0, part))).toFixed(2)}%`;

// A style attribute would be refused by the page's own Content-Security-Policy; a property is not.
export function bar(part, tone = "") {
  const fill = make("span", { class: `fill ${tone}` });
  fill.style.width = percent(part);
  return make("span", { class: "track", "aria-hidden": "true" }, fill);
}

export const part = (title, ...content) => make("div", { class: "part" }, make("h3", {}, title), ...content);
export const quiet = (text) => make("p", { class: "quiet" }, text);
export const link = (text, onclick, key) => make("button", { class: "link", type: "button", onclick, "data-key": key }, text);

export function verdict(tone, title, ...more) {
  return make("div", { class: `verdict ${tone}` }, make("p", { class: "headline" }, title), ...more.filter(Boolean).map((text) => make("p", {}, text)));
}

// What stands between backticks is code.
function worded(text) {
  const pieces = text.split("`");
  return pieces.length % 2 ? pieces.map((piece, index) => (index % 2 ? make("code", {}, piece) : piece)) : text;
}

// Sentences that begin with blanks belong to the one above.
export function sentences(all) {
  const list = make("ul", { class: "sentences" });
  for (const text of all) list.append(make("li", { class: text.startsWith(" ") ? "deeper" : undefined }, worded(text.trim())));
  return list;
}

// The first of many, and the others behind a click: hundreds of policies can govern one pod.
const MOST_AT_ONCE = 12;
export function folded(all, wrap) {
  if (all.length <= MOST_AT_ONCE + 1) return [wrap(all)];
  return [wrap(all.slice(0, MOST_AT_ONCE)), make("details", {}, make("summary", {}, `${count(all.length - MOST_AT_ONCE)} more`), wrap(all.slice(MOST_AT_ONCE)))];
}

export function remedies(ways, showNode) {
  if (!ways.length) return [];
  return [part("What would have to change", make("div", { class: "cards" }, ways.map(({ node, sentences: said }) => make("div", { class: "card" }, showNode ? link(node, () => showNode(node)) : make("strong", {}, node), ...folded(said, sentences)))))];
}

// From all nodes down to the feasible ones: a line for each filter that rejects any.
export function funnel({ steps, nodes: all }) {
  const run = steps.filter((step) => !step.skipped), rejecting = run.filter((step) => step.alone < all), passing = run.filter((step) => step.alone === all);
  if (!run.length || !all) return [];
  const row = (title, left, ...more) => make("li", {}, make("div", { class: "line" }, make("strong", {}, title), make("span", { class: "left" }, `${nodes(left)} left`)), bar(all ? left / all : 0), ...more);
  const reasons = (step) => Object.entries(step.reasons).map(([reason, amount], index) => make("li", {}, `${count(amount)} × ${reason}`, index === 0 && step.example ? make("span", { class: "quiet" }, `, for example ${step.example}`) : null));
  const rows = rejecting.map((step) => row(step.rule, step.soFar, make("ul", { class: "reasons" }, reasons(step), step.at ? make("li", { class: "quiet" }, step.at) : null)));
  return [part("Filters", ...folded([row("All nodes", all), ...rows], (some) => make("ol", { class: "funnel" }, some)),
    passing.length ? make("details", {}, make("summary", {}, `${count(passing.length)} ${passing.length === 1 ? "filter rejects" : "filters reject"} no node`), make("p", { class: "said" }, passing.map(({ rule }) => rule).join(", "))) : null)];
}

// A row for each score with a bar for each of the nodes, so that the bars of one score stand side by side.
export function scores(best, title = "Scores of the best nodes", showNode = null) {
  const names = [...new Set(best.flatMap((ranked) => ranked.scores.map((score) => score.name)))];
  if (!best.length || !names.length) return [];
  const found = (ranked, name) => ranked.scores.find((score) => score.name === name);
  const most = Math.max(1e-9, ...best.flatMap((ranked) => ranked.scores.map((score) => Math.abs(score.weighted))));
  const total = Math.max(1e-9, ...best.map((ranked) => Math.abs(ranked.totals[0] ?? 0)));
  const cell = (value, content) => make("td", {}, make("div", { class: "scored" }, content, bar(Math.abs(value), value < 0 ? "less" : "")));
  const rows = names.map((name) => {
    const { weight, tier } = best.map((ranked) => found(ranked, name)).find(Boolean);
    const how = [weight !== 1 && `weight ${number(weight)}`, tier !== 1 && `tier ${tier}`].filter(Boolean).join(", ");
    return make("tr", {}, make("th", { scope: "row" }, name, how ? make("span", { class: "quiet" }, ` ${how}`) : null), best.map((ranked) => {
      const score = found(ranked, name);
      return score ? cell(score.weighted / most, make("span", { title: `${score.raw === null ? "no value" : number(score.raw)} → ${number(score.points)} points × ${number(score.weight)}` }, number(score.weighted))) : make("td", {}, "");
    }));
  });
  rows.push(make("tr", { class: "total" }, make("th", { scope: "row" }, "total"), best.map((ranked) => cell((ranked.totals[0] ?? 0) / total, make("strong", {}, ranked.totals.map(number).join(" / "))))));
  const head = make("tr", {}, make("td", {}, ""), best.map(({ node }) => make("th", { scope: "col" }, showNode ? link(node, () => showNode(node)) : node)));
  return [part(title, make("table", { class: "scores" }, make("thead", {}, head), make("tbody", {}, rows)))];
}

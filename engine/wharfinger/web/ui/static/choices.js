// What the map is coloured by, and which pods are shown: by namespace, result, and the policy that governs them.

import { byId, make } from "./dom.js";

const CHOICES = ["namespace", "result", "policy"], POD = "pod:", GROUP = "group:", MOST_NAMESPACES = 400;

// The choice as a part of a query, "" for all pods.
export const chosen = (view) => CHOICES.filter((name) => view[name]).map((name) => `&${name}=${encodeURIComponent(view[name])}`).join("");

function offer(select, wanted, value) {
  const known = [...select.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(known) !== JSON.stringify(wanted)) select.replaceChildren(...wanted.map(([key, title]) => make("option", { value: key }, title)));
  if (select.value !== value) select.value = value;
}

export class Choices {
  constructor(changed) {
    for (const name of ["coloring", ...CHOICES]) byId(name).addEventListener("change", (event) => changed({ [name]: event.target.value }));
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    this.known = { namespace: [], policy: [] };
    this.view = { namespace: "", result: "", policy: "" };
    this.offered = [];
  }

  show(view) {
    this.view = view;
    byId("result").value = view.result;
    this.offer("namespace");
    this.offer("policy");
    this.colorings(this.offered, view.coloring);
  }

  // Of namespaces only those with news are sent: former ones stay on offer, but not all that ever were.
  namespaces(names) { this.offer("namespace", [...new Set([...names, ...this.known.namespace])].slice(0, MOST_NAMESPACES)); }

  policies(all) { this.offer("policy", all.map(({ name }) => name).filter(Boolean)); }

  offer(what, names = this.known[what]) {
    const value = this.view[what], all = new Set(value ? [...names, value] : names);
    this.known[what] = names;
    offer(byId(what), [["", "all"], ...[...all].sort().map((name) => [name, name])], value);
  }

  colorings(offered, coloring) {
    this.offered = offered;
    const wanted = offered.map(({ key, title }) => [key, title]);
    if (coloring.startsWith(POD)) wanted.push([coloring, `score for ${coloring.slice(POD.length)}`]);
    else if (coloring.startsWith(GROUP)) wanted.push([coloring, `group ${coloring.slice(GROUP.length)}`]);
    else if (!offered.some(({ key }) => key === coloring)) wanted.push([coloring, coloring]);
    offer(byId("coloring"), wanted, coloring);
  }
}

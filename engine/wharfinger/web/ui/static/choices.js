// What the map is coloured by, and which pods are shown: by namespace, result, and the policy that governs them.

import { byId, make } from "./dom.js";

const CHOICES = ["namespace", "result", "policy"], POD = "pod:", GROUP = "group:";

// The choice as a part of a query, "" for all pods.
export const chosen = (view) => CHOICES.filter((name) => view[name]).map((name) => `&${name}=${encodeURIComponent(view[name])}`).join("");

function offer(select, wanted, value) {
  const known = [...select.options].map((option) => [option.value, option.text]);
  if (JSON.stringify(known) !== JSON.stringify(wanted)) select.replaceChildren(...wanted.map(([key, title]) => make("option", { value: key }, title)));
  select.value = value;
}

export class Choices {
  constructor(changed) {
    for (const name of ["coloring", ...CHOICES]) byId(name).addEventListener("change", (event) => changed({ [name]: event.target.value }));
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    this.known = { namespace: new Set(), policy: new Set() };
    this.view = { namespace: "", result: "", policy: "" };
    this.offered = [];
  }

  show(view) {
    this.view = view;
    byId("result").value = view.result;
    this.add("namespace", []);
    this.add("policy", []);
    this.colorings(this.offered, view.coloring);
  }

  namespaces(names) { this.add("namespace", names); }

  policies(all) { this.add("policy", all.map(({ name }) => name).filter(Boolean)); }

  add(what, names) {
    const value = this.view[what], known = this.known[what];
    for (const name of [...names, ...(value ? [value] : [])]) known.add(name);
    offer(byId(what), [["", "all"], ...[...known].sort().map((name) => [name, name])], value);
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

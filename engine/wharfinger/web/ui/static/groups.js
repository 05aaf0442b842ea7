// The panel of groups: those that wait with what they wait for, those that are placed with where they are.

import { renew } from "./content.js";
import { byId, count, make, since, table } from "./dom.js";

const TONES = { placed: "good", "placed in part": "good", "waits for members": "warn", "waits for room": "warn", "being placed": "" };

export function groups(reply, now, chosen, { showGroup, colour }) {
  const section = byId("groups");
  section.hidden = !reply.total && !chosen;
  byId("groups-title").textContent = reply.total ? `Groups · ${count(reply.total)}` : "Groups";
  const cell = (content, name) => make("td", { class: name }, content ?? "");
  const build = () => reply.groups.map((group) => make("tr", {},
    cell([make("button", { class: "link", type: "button", "data-key": `group ${group.group}`, onclick: () => showGroup(group.group) }, group.group), make("div", { class: "quiet" }, group.source)], "name"),
    cell(make("span", { class: `badge ${TONES[group.state] ?? "warn"}` }, group.state)),
    cell(`${count(group.placed)} of ${count(group.members)}${group.minCount ? `, at least ${count(group.minCount)}` : ""}`, "number"),
    cell([...where(group), make("button", { class: "link", type: "button", "data-key": `map of ${group.group}`, "aria-label": `show ${group.group} on the map`, onclick: () => colour(group.group) }, "on the map")], "wide"),
    cell(group.since === null ? "" : since(now - group.since), "number")));
  const omitted = () => (reply.omitted ? [make("p", { class: "quiet" }, `and ${count(reply.omitted)} more groups`)] : []);
  renew(section.querySelector(".body"), () => [reply.total ? table(["group", "state", "#placed", "domain or reason", "#pending for"], build(), "Groups") : make("p", { class: "quiet" }, "No groups match the filters."), ...omitted()]);
}

function where({ message, domains, nodes }) {
  if (message) return [make("div", {}, message)];
  const within = domains.map(({ key, value }) => `${key.split("/").pop()} ${value}`).join(", ");
  return [make("div", {}, [within, `${count(nodes)} ${nodes === 1 ? "node" : "nodes"}`].filter(Boolean).join(" · "))];
}

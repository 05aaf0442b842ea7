// The devices of a node as cells: of each its state, who holds it, and what is left.

import { amount, count, make, number } from "./dom.js";
import { bar, link, part, quiet } from "./verdict.js";

const tones = { free: "good", "partly taken": "warn", taken: "bad", blocked: "bad" };
const named = (name) => (name === "milli" ? "thousandths" : name);
const size = (name, value) => (name === "cpu" ? number(value) : amount(name, value)); // an amount of devices is never in millicores

export function devices({ count: all, states, omitted, pools }, showPod) {
  if (!all) return [];
  const summary = Object.entries(states).map(([state, some]) => `${count(some)} ${state}`).join(", ");
  return [part(`Devices · ${count(all)}: ${summary}`, ...pools.map((pool) => group(pool, showPod)), omitted ? quiet(`and ${count(omitted)} more`) : null)];
}

function group({ driver, pool, counted, devices: found }, showPod) {
  return make("div", {}, make("h4", {}, `${driver}`, make("span", { class: "quiet" }, ` pool ${pool}`)),
    counted ? quiet("Only how many are taken is known: the kubelet chooses which ones, and does not report them.") : null,
    make("ul", { class: "cells" }, found.map((device) => cell(device, showPod))));
}

function cell({ name, model, state, part: taken, taints, left, holders, moreHolders }, showPod) {
  const rest = left.filter(({ free }) => free !== null).map(({ name: of, free, capacity }) => make("li", {}, `${size(of, free)} of ${size(of, capacity)} ${named(of)} left`));
  return make("li", { class: "card" },
    make("div", { class: "line" }, make("strong", {}, name), make("span", { class: `badge ${tones[state]}` }, state)), bar(taken),
    model ? quiet(model) : null,
    taints.length ? make("p", {}, `tainted: ${taints.join(", ")}`) : null,
    state === "blocked" ? quiet("No pod holds it, but other devices use up its counters.") : null,
    rest.length ? make("ul", { class: "reasons" }, rest) : null,
    ...holders.map((holder) => held(holder, name, showPod)), moreHolders ? quiet(`and ${count(moreHolders)} more`) : null);
}

function held({ claim, pods, amounts, admin, inFlight, supposed }, device, showPod) {
  const what = Object.entries(amounts).map(([name, value]) => `${size(name, value)} ${named(name)}`).join(", ");
  const notes = [claim && `claim ${claim}`, what, admin && "admin access", claim && !pods.length && "reserved for no pod", inFlight && "not written yet", supposed && "supposed: no index is written on the pod"].filter(Boolean);
  return make("div", { class: "holder" }, ...pods.map((pod) => link(pod, () => showPod(pod), `device ${device} of ${pod}`)), quiet(notes.join("; ")));
}

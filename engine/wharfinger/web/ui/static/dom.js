// Elements from text: nothing that came from the cluster is ever read as HTML.

// Characters that nobody sees but that turn the text after them around, or that a terminal would obey.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// The text with such characters written out.
export const shown = (text) => String(text).replace(UNSEEN, (character) => `[U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : key === "title" || key === "aria-label" ? shown(value) : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : shown(child))));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function table(heads, rows, caption) {
  return make("div", { class: "scroll", role: "group", "aria-label": caption, "data-key": `table of ${caption}` },
    make("table", {}, make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col", class: head.startsWith("#") ? "number" : undefined }, head.replace(/^#/, ""))))),
      make("tbody", {}, rows)));
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const hundredths = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
const ago = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const count = (value) => whole.format(value ?? 0);
export const nodes = (amount) => `${count(amount)} ${amount === 1 ? "node" : "nodes"}`;
export const share = (value) => percent.format(value);
export const number = (value) => short.format(value);
export const milliseconds = (value) => `${hundredths.format(value)} ms`;
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
export const moment = (seconds) => new Date(seconds * 1000).toLocaleString("sv-SE");
export const when = (seconds) => (new Date(seconds * 1000).toDateString() === new Date().toDateString() ? clock(seconds) : moment(seconds).slice(0, 10));
export const since = (seconds) => {
  const [unit, size] = ago.find(([, each]) => seconds >= each) ?? ["s", 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
};

// An amount in the scheduler's units as people write it: cpu in cores, bytes in binary multiples.
export function amount(resource, value) {
  if (resource === "cpu") return `${number(value / 1000)} ${value === 1000 ? "core" : "cores"}`;
  if (!/memory|storage|hugepages/.test(resource)) return count(value);
  const power = value > 0 ? Math.min(5, Math.floor(Math.log2(value) / 10)) : 0;
  return `${number(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}

export function meter(label, requested, allocatable, text) {
  const part = allocatable > 0 ? requested / allocatable : 0;
  return make("div", { class: "meter" }, make("span", { title: label }, label), make("span", {}, text ?? share(part)),
    make("meter", { min: 0, max: 1, value: Math.min(1, part), high: 0.9, low: 0.9, optimum: 0.1, "aria-label": `${label}: ${share(part)}` }));
}

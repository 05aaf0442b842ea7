// What the page shows is in its address: it can be pasted, is there after a reload, and "back" leads to what was shown before.

const PAUSE = 300;
const USUAL = { coloring: "cpu", find: "", namespace: "", result: "", policy: "", workload: "", drain: "", add: "", pod: "", node: "", for: "", group: "" };

export class Address {
  constructor(changed) {
    Object.assign(this, { changed, noted: {}, timer: 0 });
    addEventListener("popstate", () => { this.forget(); changed(this.view); });
    addEventListener("pagehide", () => this.write());
    addEventListener("change", () => this.write()); // a field was left: a reload takes the address as it was before "pagehide"
  }

  get view() {
    const asked = new URLSearchParams(location.search);
    return Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, asked.get(name) || usual]));
  }

  // Another view, with an entry in the history of the browser.
  go(changes) {
    this.write();
    if (this.put(changes, "pushState")) this.changed(this.view);
  }

  // The same view with something typed or chosen: no entry for each letter, and no change for each, as browsers allow only some in a time.
  note(changes) {
    Object.assign(this.noted, changes);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), PAUSE);
  }

  write() {
    const { noted } = this;
    this.forget();
    this.put(noted, "replaceState");
  }

  forget() {
    clearTimeout(this.timer);
    this.noted = {};
  }

  put(changes, how) {
    const next = { ...this.view, ...changes }, kept = Object.entries(next).filter(([name, value]) => value && value !== USUAL[name]);
    const query = new URLSearchParams(kept).toString().replaceAll("%2F", "/").replaceAll("%3A", ":"), path = location.pathname + (query && `?${query}`);
    if (path === location.pathname + location.search) return false;
    history[how](null, "", path);
    return true;
  }
}

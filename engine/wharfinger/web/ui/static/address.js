// What the page shows is in its address: it can be pasted, is there after a reload, and "back" leads to what was shown before.

const USUAL = { coloring: "cpu", find: "", namespace: "", result: "", policy: "", workload: "", drain: "", add: "", pod: "", node: "", for: "", group: "" };

export class Address {
  constructor(changed) {
    this.changed = changed;
    addEventListener("popstate", () => changed(this.view));
  }

  get view() {
    const asked = new URLSearchParams(location.search);
    return Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, asked.get(name) ?? usual]));
  }

  // Another view, with an entry in the history of the browser.
  go(changes) {
    if (this.put(changes, "pushState")) this.changed(this.view);
  }

  // The same view with something typed or chosen: no entry for each letter.
  note(changes) {
    this.put(changes, "replaceState");
  }

  put(changes, how) {
    const next = { ...this.view, ...changes }, kept = Object.entries(next).filter(([name, value]) => value && value !== USUAL[name]);
    const query = new URLSearchParams(kept).toString().replaceAll("%2F", "/").replaceAll("%3A", ":"), path = location.pathname + (query && `?${query}`);
    if (path === location.pathname + location.search) return false;
    history[how](null, "", path);
    return true;
  }
}

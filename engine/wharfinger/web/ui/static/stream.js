// The connection to the scheduler: it is made again when it ends, when it is refused, and when nothing comes for long.

import { pause, reason } from "./ask.js";
import { byId, clock } from "./dom.js";
import { notice } from "./notice.js";

const SILENCE = 10_000, GIVEN_UP = 20_000, BETWEEN = 3000;

export class Stream {
  // `path` is called for each connection; `handlers` has a function for each kind of message.
  constructor({ path, handlers, trouble }) {
    Object.assign(this, { path, handlers, trouble, source: null, asking: null, last: 0, began: 0, again: 0 });
    document.addEventListener("visibilitychange", () => this.listen());
    setInterval(() => this.look(), BETWEEN);
  }

  // A browser keeps six connections to one address: hidden tabs leave theirs to the others.
  listen() {
    this.asking?.abort();
    this.source?.close();
    Object.assign(this, { asking: null, source: document.hidden ? null : new EventSource(this.path()), began: Date.now(), again: 0 });
    if (!this.source) return;
    this.source.onerror = () => this.live(false);
    for (const [name, handle] of Object.entries(this.handlers)) {
      this.source.addEventListener(name, (event) => { this.live(true); handle(JSON.parse(event.data)); });
    }
  }

  look() {
    const now = Date.now();
    if (this.last && now - this.last > SILENCE) this.live(false);
    if (document.hidden || this.asking) return;
    if (this.source?.readyState === EventSource.CLOSED) this.source = null;
    if (!this.source && now >= this.again) this.ask();
    else if (this.source && now - Math.max(this.last, this.began) > GIVEN_UP) this.listen(); // nobody tells a browser that the other side has gone without a word
  }

  // An EventSource does not show what the scheduler says when it does not want another page.
  async ask() {
    const asking = (this.asking = new AbortController()), { signal } = asking;
    const answer = await fetch(this.path(), { signal }).catch(() => null);
    if (signal.aborted) return;
    if (answer?.ok) return void this.listen();
    const text = answer && (await answer.text().catch(() => ""));
    if (signal.aborted) return;
    this.asking = null;
    if (!answer) return void this.trouble("The scheduler cannot be reached. The page tries again."); // what it said before is no longer so
    this.again = Date.now() + 1000 * (pause(answer) || 0);
    this.trouble(reason(answer, text));
  }

  live(is) {
    if (is) this.last = Date.now();
    const badge = byId("live"), at = this.last && clock(this.last / 1000), text = is ? "live" : at ? `no data since ${at}` : "connecting";
    if (badge.textContent !== text) Object.assign(badge, { textContent: text, className: `badge ${is ? "good" : "bad"}` });
    document.documentElement.toggleAttribute("data-silent", !is); // what was well then is not shown as well now
    notice("silence", is || !at ? "" : `The scheduler has sent no data since ${at}: the page shows the state of that time, and connects again by itself.`);
  }
}

// What the whole page has to be read with: that its news have stopped, that this process only stands by, that the page is an old one.

import { byId } from "./dom.js";

const sentences = new Map();

// Says one thing, or nothing more of it where the sentence is "".
export function notice(what, sentence) {
  sentences.set(what, sentence);
  const text = [...sentences.values()].filter(Boolean).join(" ");
  if (byId("notice").textContent !== text) byId("notice").textContent = text; // or it would be read aloud again
}

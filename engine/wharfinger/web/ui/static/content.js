// New content in the place of the old: the keyboard, what is scrolled, clicked or selected stays as it is.

// What is scrolled can be reached by the keyboard, and only that.
export function reachable(element) {
  for (const box of element.querySelectorAll(".scroll")) {
    if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

// An element of the new content that stands for one of the old: the same key, or without keys the same text in the same kind of element.
const standsFor = (old) => (found) => (old.dataset.key === undefined ? found.tagName === old.tagName && found.textContent === old.textContent : found.dataset.key === old.dataset.key);

// Put the new content in the place of the old, and the keyboard back where it was.
export function fill(element, ...children) {
  const held = element !== document.activeElement && element.contains(document.activeElement) ? document.activeElement : undefined;
  const scrolled = [...element.querySelectorAll(".scroll")].map((box) => box.scrollTop);
  element.replaceChildren(...children.flat());
  reachable(element);
  [...element.querySelectorAll(".scroll")].forEach((box, index) => { box.scrollTop = scrolled[index] ?? 0; });
  if (held) [...element.querySelectorAll("*")].find(standsFor(held))?.focus({ preventScroll: true });
}

// What is pressed, and a moment longer: the click comes after the pointer or the key is up, and only if both were on one element.
const AFTERWARDS = 300;
const waiting = new Map();
let pressed = null, ending = 0;
const press = (event) => { clearTimeout(ending); pressed = event.target; };
const release = () => { pressed = null; renewed(); };
addEventListener("pointerdown", press, true);
for (const name of ["pointerup", "pointercancel", "keyup", "blur"]) addEventListener(name, () => { clearTimeout(ending); ending = setTimeout(release, AFTERWARDS); });
addEventListener("keydown", (event) => { if (event.key === " ") press(event); }, true);
document.addEventListener("selectionchange", () => { if (getSelection().isCollapsed) renewed(); });

function used(element) {
  const selection = getSelection();
  return element.contains(pressed) || (!selection.isCollapsed && element.contains(selection.anchorNode));
}

function renewed() {
  for (const [element, build] of waiting) {
    const old = used(element);
    element.closest("section")?.toggleAttribute("data-held", old && !element.contains(pressed)); // its heading says so
    if (!old) { waiting.delete(element); fill(element, ...[build()].flat()); }
  }
}

// The same for news that come by themselves: what is just being clicked or selected stays until that has ended.
export function renew(element, build) {
  waiting.set(element, build);
  renewed();
}

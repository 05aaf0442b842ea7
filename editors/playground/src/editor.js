// The editor of policies. What is said about a text comes from the server that serves the page, as plain values with places in UTF-16
// units, which are those of the browser: this file only shows it.
//
// It lives in a shadow root: there CodeMirror puts its styles into constructed style sheets, which a Content-Security-Policy without inline
// styles admits.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, insertCompletionText, snippet } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, RangeSetBuilder, StateEffect, StateField, Transaction } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, dropCursor, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers, showTooltip } from "@codemirror/view";

const painted = StateEffect.define(), explained = StateEffect.define();

const paint = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) if (effect.is(painted)) return effect.value;
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

// The explanation that was asked for with the keyboard; it goes with the next change or movement.
const explanation = StateField.define({
  create: () => null,
  update(shown, transaction) {
    for (const effect of transaction.effects) if (effect.is(explained)) return effect.value;
    return transaction.docChanged || transaction.selection ? null : shown;
  },
  provide: (field) => showTooltip.from(field),
});

const kinds = new Map();
const mark = (found) => {
  const names = found.map((kind) => `token-${kind}`).join(" ");
  if (!kinds.has(names)) kinds.set(names, Decoration.mark({ class: names }));
  return kinds.get(names);
};

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--card)", fontSize: "var(--editor-size, .9rem)", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 14%, var(--ground))", color: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--none-line)", borderRadius: ".35rem", maxWidth: "min(36rem, 92vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace', maxHeight: "none", overflow: "hidden" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-tooltip-autocomplete > ul > li": { padding: ".2rem .5rem" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: ".8", marginLeft: "1em" },
  ".cm-completionInfo": { padding: ".4rem .6rem", whiteSpace: "pre-wrap" },
  // The package draws these with images in data: addresses, which the page's Content-Security-Policy does not admit.
  ".cm-lintRange": { backgroundImage: "none", textDecorationLine: "underline", textDecorationStyle: "wavy", textDecorationSkipInk: "none" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecorationColor: "var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecorationColor: "var(--warn)" },
  ".cm-lint-marker": { fontSize: ".8em", lineHeight: "1.9", textAlign: "center" },
  ".cm-lint-marker-error": { content: "normal", color: "var(--bad)", "&::after": { content: '"●"' } },
  ".cm-lint-marker-warning": { content: "normal", color: "var(--warn)", "&::after": { content: '"▲"' } },
  ".cm-diagnostic": { padding: ".3rem .6rem", whiteSpace: "pre-wrap", borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)", font: "inherit", padding: ".1rem .5rem" },
  ".cm-panels": { backgroundColor: "var(--ground)", color: "var(--ink)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--card)", border: "1px solid var(--none-line)", color: "var(--ink)", fontSize: "inherit" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--card)", border: "1px solid var(--none-line)", color: "var(--ink)", fontSize: "inherit" },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent)" },
  ".said": { padding: ".4rem .7rem", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".said pre": { margin: ".2rem 0", whiteSpace: "pre-wrap" },
  ".said code": { fontFamily: 'ui-monospace, "DejaVu Sans Mono", monospace' },
  ".token-keyword": { color: "var(--token-keyword)" },
  ".token-string": { color: "var(--token-string)" },
  ".token-number": { color: "var(--token-number)" },
  ".token-comment": { color: "var(--quiet)", fontStyle: "italic" },
  ".token-function": { color: "var(--token-function)" },
  ".token-operator, .token-variable": { color: "var(--ink)" },
  ".token-parameter, .token-struct": { color: "var(--token-parameter)" },
  ".token-property": { color: "var(--token-property)" },
  ".token-type, .token-class, .token-namespace, .token-decorator": { color: "var(--token-type)" },
  ".token-declaration": { fontWeight: "600" },
});

// Text with blocks between ``` and words between `, as the documentation of the language writes it. Nothing of it is read as HTML.
const rendered = (text) => {
  const element = document.createElement("div");
  element.className = "said";
  text.split(/^```.*$\n?/m).forEach((block, index) => {
    const part = document.createElement(index % 2 ? "pre" : "div");
    if (index % 2) part.textContent = block.trimEnd();
    else block.trim().split("`").forEach((words, at) => {
      const piece = document.createElement(at % 2 ? "code" : "span");
      piece.textContent = at % 2 ? words : words.replaceAll("**", "").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");
      part.append(piece);
    });
    if (part.textContent) element.append(part);
  });
  return element;
};

const ICONS = { field: "property", value: "variable", subject: "namespace", word: "constant", unit: "constant", key: "property", label: "text", object: "variable", rule: "function", plugin: "class", annotation: "keyword" };

// Characters from the beginning of the item to `to` are replaced. `$1` and `${1:text}` of a snippet are places to go on.
function write(view, option, item, to) {
  if (item.snippet) snippet(item.text.replace(/\$(\d)/g, "${$1}").replaceAll("${0}", "${}"))(view, option, item.from, to);
  else view.dispatch(insertCompletionText(view.state, item.text, item.from, to));
}

// Typing over a selection. Chromium would give the new text the look of the old one in a style attribute, which the page's
// Content-Security-Policy refuses aloud.
function replaced(event, view) {
  const { from, to, empty } = view.state.selection.main;
  if (event.inputType !== "insertText" || !event.data || empty || view.composing) return false;
  const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  event.preventDefault();
  if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, event.data, insert))) view.dispatch(insert());
  return true;
}

export class PolicyEditor {
  // `changed(text)` is called after each change; `complete(text, at, asked)` and `hover(text, at)` answer in promises; `keys` are more keys.
  constructor(host, { label, text, changed, complete, hover, keys }) {
    const root = host.attachShadow({ mode: "open" });
    this.asked = { complete, hover };
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers(), highlightActiveLineGutter(), history(), drawSelection(), dropCursor(), EditorState.allowMultipleSelections.of(true),
          indentUnit.of("  "), bracketMatching(), closeBrackets(), highlightActiveLine(), highlightSelectionMatches(), EditorView.lineWrapping,
          EditorState.languageData.of(() => [{ commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } }]),
          autocompletion({ override: [(context) => this.completions(context)], maxRenderedOptions: 10 }),
          hoverTooltip((view, at) => this.tooltip(at)), lintGutter(), paint, explanation, look,
          keymap.of([...keys.map(([key, run]) => ({ key, run: () => { run(); return true; } })),
            { key: "Mod-Shift-i", run: () => { this.explain(); return true; } }, { key: "Escape", run: (view) => this.hide(view) },
            ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap]),
          EditorView.domEventHandlers({ beforeinput: replaced }),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocorrect: "off", autocapitalize: "off" }),
          EditorView.updateListener.of((update) => { if (update.docChanged) changed(this.text); }),
        ],
      }),
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  // Puts another text in the place of the whole; the cursor stays where it was as far as the texts are alike at their ends.
  put(text) {
    const before = this.text;
    if (text === before) return;
    let start = 0, end = 0;
    const most = Math.min(before.length, text.length);
    while (start < most && before[start] === text[start]) start += 1;
    while (end < most - start && before.at(-1 - end) === text.at(-1 - end)) end += 1;
    this.view.dispatch({ changes: { from: start, to: before.length - end, insert: text.slice(start, text.length - end) }, annotations: Transaction.userEvent.of("input") });
  }

  // `found` and `tokens` are about the text as it was when they were asked for: nothing is shown if it has changed since.
  show(text, { found, tokens }) {
    if (text !== this.text) return;
    const diagnostics = found.map(({ from, to, severity, message, fixes }) => ({
      from, to: Math.max(to, from), severity, message,
      actions: fixes.map(({ title, edits }) => ({ name: title, apply: () => this.apply(edits) })),
    }));
    const marks = new RangeSetBuilder();
    for (const { from, to, kinds: found } of tokens) if (from < to) marks.add(from, to, mark(found));
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics), { effects: painted.of(marks.finish()) });
  }

  apply(edits) {
    this.view.dispatch({ changes: edits.map(({ from, to, text }) => ({ from, to, insert: text })), annotations: Transaction.userEvent.of("input") });
    this.view.focus();
  }

  goTo(from, to = from) {
    const size = this.view.state.doc.length;
    this.view.dispatch({ selection: { anchor: Math.min(from, size), head: Math.min(to, size) }, effects: EditorView.scrollIntoView(Math.min(from, size), { y: "center" }) });
    this.view.focus();
  }

  async completions(context) {
    const { state, pos, explicit } = context, before = state.sliceDoc(Math.max(0, pos - 1), pos);
    if (!explicit && !/[\w."[({:@]/.test(before)) return null;
    const answer = await this.asked.complete(state.doc.toString(), pos);
    if (!answer || context.aborted || !answer.items.length) return null;
    const from = Math.max(...answer.items.map((item) => item.from)), begun = state.sliceDoc(from, pos);
    return {
      from,
      options: answer.items.map((item, rank) => ({
        label: item.label, detail: item.detail, info: item.doc ? () => rendered(item.doc) : undefined, type: ICONS[item.kind] ?? item.kind, boost: -Math.min(rank, 99),
        apply: (view, option, _, to) => write(view, option, item, item.to - pos + to),
      })),
      validFor: /^\w*$/.test(begun) ? /^\w*$/ : undefined,
    };
  }

  async tooltip(at) {
    const answer = await this.asked.hover(this.text, at);
    return answer && { pos: answer.from, end: answer.to, above: true, create: () => ({ dom: rendered(answer.text) }) };
  }

  async explain() {
    const text = this.text, tooltip = await this.tooltip(this.view.state.selection.main.head);
    if (text !== this.text) return;
    const create = () => {
      const { dom } = tooltip.create();
      dom.setAttribute("role", "status");
      return { dom };
    };
    this.view.dispatch({ effects: explained.of(tooltip && { ...tooltip, create }) });
  }

  hide(view) {
    if (!view.state.field(explanation)) return false;
    view.dispatch({ effects: explained.of(null) });
    return true;
  }
}

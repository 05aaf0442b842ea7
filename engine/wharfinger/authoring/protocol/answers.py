"""The answers of `authoring` in the types of the Language Server Protocol (3.17), for the texts of an editor.

`positions` converts between offsets, which the rest of `authoring` uses, and lines with UTF-16 code units.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris

from wharfinger.authoring import actions, highlighting, hover, inline_texts, navigation, tests_of_decisions
from wharfinger.authoring.actions import Action
from wharfinger.authoring.completion.candidates import candidates
from wharfinger.authoring.completion.place import Candidate, signatures
from wharfinger.authoring.document import Document, Finding, findings
from wharfinger.authoring.inline_texts import InlayHints, PassingNodeCounts
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.authoring.protocol.positions import Positions
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.language.files import SUFFIX, decode, paired_file
from wharfinger.language.load import OnDisk
from wharfinger.language.report.diagnostics import Diagnostics, Source

MAX_FILES = 500
"""Files of a workspace that are looked into for symbols and uses."""
MAX_SEARCHED = 200_000
"""Files and folders of any name among which policies are searched. The folder of an editor may be a home folder."""

RUN_TEST = "wharfinger.runTest"
MAKE_TEST = "wharfinger.makeTest"

_SYMBOLS = {
    "policy": lsp.SymbolKind.Module,
    "import": lsp.SymbolKind.Namespace,
    "param": lsp.SymbolKind.Constant,
    "let": lsp.SymbolKind.Variable,
    "metric": lsp.SymbolKind.Event,
    "workload": lsp.SymbolKind.Array,
    "filter": lsp.SymbolKind.Method,
    "score": lsp.SymbolKind.Method,
    "permit": lsp.SymbolKind.Method,
    "group": lsp.SymbolKind.Object,
    "test": lsp.SymbolKind.Function,
    "test node": lsp.SymbolKind.Object,
    "test pod": lsp.SymbolKind.Object,
}
_COMPLETION_KINDS = {
    "field": lsp.CompletionItemKind.Field,
    "function": lsp.CompletionItemKind.Function,
    "value": lsp.CompletionItemKind.Variable,
    "subject": lsp.CompletionItemKind.Variable,
    "keyword": lsp.CompletionItemKind.Keyword,
    "word": lsp.CompletionItemKind.EnumMember,
    "type": lsp.CompletionItemKind.TypeParameter,
    "unit": lsp.CompletionItemKind.Unit,
    "key": lsp.CompletionItemKind.Property,
    "label": lsp.CompletionItemKind.Value,
    "object": lsp.CompletionItemKind.Struct,
    "rule": lsp.CompletionItemKind.Method,
    "plugin": lsp.CompletionItemKind.Class,
    "annotation": lsp.CompletionItemKind.Event,
}
_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}


class Workspace:
    """The texts that are open in the editor, and the files of its folders."""

    def __init__(self) -> None:
        self.open: dict[str, Document] = {}
        self.folders: list[str] = []

    def exists(self, name: str) -> bool:
        """True if a text of that name is open or stored."""
        return name in self.open or OnDisk().exists(name)

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text of that name; None, with a finding, if it is not a policy text. Raises UsageError if it cannot be read."""
        if name in self.open:
            return decode(self.open[name].text.encode("utf-8", "surrogatepass"), name, diagnostics)
        return OnDisk().read(name, diagnostics)

    def changed(self, name: str, text: str, version: int) -> Document:
        """A document with a new text. Documents that use it are analysed again at their next request."""
        document = self.open[name] = Document(name, text, version, self)
        for other in list(self.open.values()):
            if other.name != name and self._uses(other, name):
                self.open[other.name] = other.with_text(other.text)
        return document

    def _uses(self, document: Document, name: str) -> bool:
        return paired_file(document.name) == name or name in navigation.imports(document).values()

    def users_of(self, name: str) -> list[Document]:
        """The open documents whose findings depend on a text."""
        return [document for document in self.open.values() if document.name != name and self._uses(document, name)]

    def document(self, name: str) -> Document | None:
        """The open document of that name, or the stored one; None if there is none that can be read."""
        if name in self.open:
            return self.open[name]
        try:
            source = OnDisk().read(name, Diagnostics()) if OnDisk().exists(name) else None
        except WharfingerError:
            return None
        return Document(name, source.text, texts=self) if source is not None else None

    def all(self) -> Iterator[Document]:
        """The open documents, and the policy files in the folders."""
        yield from self.open.values()
        stored = (path for folder in self.folders for path in _policy_files(folder) if path not in self.open)
        for path in itertools.islice(stored, MAX_FILES):
            document = self.document(path)
            if document is not None:
                yield document


def _policy_files(folder: str) -> Iterator[str]:
    """The policy files in a folder and below, without hidden folders, as far as `MAX_SEARCHED` entries lead."""
    seen = 0
    for parent, folders, names in os.walk(Path(folder)):
        seen += len(folders) + len(names)
        if seen > MAX_SEARCHED:
            return
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (os.path.join(parent, name) for name in sorted(names) if name.endswith(SUFFIX) and not name.startswith("."))  # noqa: PTH118 — thousands of paths
        yield from (path for path in paths if OnDisk().exists(path))


def name_of(uri: str) -> str:
    """The name of a document: its path, or its whole URI if it is not a file."""
    path = uris.to_fs_path(uri)
    return uri if not path or not _is_encodable(path) else path


def _is_encodable(path: str) -> bool:
    """False for a path that no file has: JSON may hold half of a pair of code units."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def uri_of(name: str) -> str:
    """The address of a document."""
    if "://" in name or name.startswith("untitled:") or not _is_encodable(name):
        return name
    return uris.from_fs_path(str(Path(name).absolute())) or name


class Answers:
    """The answers to an editor's questions, in the protocol's types."""

    def __init__(self, cluster: KnownCluster | None = None) -> None:
        self.workspace = Workspace()
        self.cluster = cluster
        self._positions: dict[str, tuple[str, Positions]] = {}
        self._passing: dict[str, PassingNodeCounts] = {}
        self._results: dict[tuple[str, str], str] = {}
        self._hints: dict[str, InlayHints] = {}

    # ── places ──

    def known(self, uri: str) -> Document | None:
        """The document of that address; None for one that is not open."""
        return self.workspace.open.get(name_of(uri))

    def positions(self, document: Document) -> Positions:
        """The places of a document."""
        kept = self._positions.get(document.name)
        if kept is None or kept[0] is not document.text:
            kept = self._positions[document.name] = (document.text, Positions(document.text))
        return kept[1]

    def offset(self, document: Document, position: lsp.Position) -> int:
        """The offset in characters of a place."""
        return self.positions(document).offset(position.line, position.character)

    def position(self, document: Document, offset: int) -> lsp.Position:
        """The place of an offset."""
        return lsp.Position(*self.positions(document).at(offset))

    def range(self, document: Document, start: int, end: int) -> lsp.Range:
        """The range of some characters."""
        return lsp.Range(self.position(document, start), self.position(document, max(start, end)))

    def _location(self, found: navigation.Occurrence) -> lsp.Location | None:
        document = self.workspace.document(found.file)
        return None if document is None else lsp.Location(uri_of(found.file), self.range(document, found.start, found.end))

    # ── findings ──

    def diagnostics(self, document: Document) -> list[lsp.Diagnostic]:
        """The findings about a document."""
        return [self._diagnostic(document, each) for each in findings(document)]

    def _diagnostic(self, document: Document, found: Finding) -> lsp.Diagnostic:
        related = [
            lsp.DiagnosticRelatedInformation(location, text)
            for file, start, end, text in found.others
            if (location := self._location(navigation.Occurrence(file, start, end, declares=False)))
        ]
        return lsp.Diagnostic(
            range=self.range(document, found.start, found.end),
            message=found.text,
            severity=_SEVERITIES[found.severity],
            code=found.code or None,
            source="wharf",
            related_information=related or None,
        )

    # ── while writing ──

    def completion(self, document: Document, offset: int) -> lsp.CompletionList:
        """The completion items at a place."""
        found = candidates(document, offset, self.cluster)
        return lsp.CompletionList(is_incomplete=False, items=[self._item(document, number, each) for number, each in enumerate(found)])

    def _item(self, document: Document, number: int, candidate: Candidate) -> lsp.CompletionItem:
        return lsp.CompletionItem(
            label=candidate.label,
            kind=_COMPLETION_KINDS[candidate.kind],
            detail=candidate.detail or None,
            documentation=_markdown(candidate.doc) if candidate.doc else None,
            insert_text_format=lsp.InsertTextFormat.Snippet if candidate.snippet else lsp.InsertTextFormat.PlainText,
            filter_text=document.text[candidate.start : candidate.start + 1] + candidate.label if candidate.label.startswith('"') else None,
            sort_text=f"{candidate.rank}{number:04}",
            text_edit=lsp.TextEdit(self.range(document, candidate.start, candidate.end), candidate.written),
        )

    def hover(self, document: Document, offset: int) -> lsp.Hover | None:
        """The hover text of a word."""
        found = hover.hover(document, offset, self.cluster)
        return lsp.Hover(_markdown(found.text), self.range(document, found.start, found.end)) if found is not None else None

    def signature_help(self, document: Document, offset: int) -> lsp.SignatureHelp | None:
        """The signature of the function around a place."""
        found = signatures(document, offset)
        shown = [
            lsp.SignatureInformation(
                label=each.text,
                documentation=_markdown(each.doc),
                parameters=[lsp.ParameterInformation(label=text) for text in each.parameters],
                active_parameter=each.active,
            )
            for each in found
        ]
        return lsp.SignatureHelp(shown, active_signature=0, active_parameter=found[0].active) if found else None

    def formatting(self, document: Document) -> list[lsp.TextEdit] | None:
        """The change to the canonical layout; None where a text does not parse."""
        text = document.formatted
        if text is None or text == document.text:
            return None if text is None else []
        return [lsp.TextEdit(self.range(document, 0, len(document.text)), text)]

    # ── names ──

    def definition(self, document: Document, offset: int) -> list[lsp.Location]:
        """The declaration of a name."""
        found = navigation.definition(document, offset, self._others(document))
        return [location for each in found if (location := self._location(each)) is not None]

    def references(self, document: Document, offset: int, *, declarations: bool) -> list[lsp.Location]:
        """The occurrences of a name."""
        found = navigation.references(document, offset, self._others(document))
        kept = (each for each in found if declarations or not each.declares)
        return [location for each in kept if (location := self._location(each)) is not None]

    def highlight(self, document: Document, offset: int) -> list[lsp.DocumentHighlight]:
        """The occurrences of a name in the same document."""
        found = navigation.references(document, offset)
        kinds = {True: lsp.DocumentHighlightKind.Write, False: lsp.DocumentHighlightKind.Read}
        return [lsp.DocumentHighlight(self.range(document, each.start, each.end), kinds[each.declares]) for each in found]

    def rename(self, document: Document, offset: int, name: str) -> lsp.WorkspaceEdit:
        """The changes that rename a name; raises UsageError where that cannot be."""
        changes: dict[str, list[lsp.TextEdit]] = {}
        for place, text in navigation.renamed(document, offset, name, self._others(document)):
            declaring = self.workspace.document(place.file)
            if declaring is not None:
                changes.setdefault(uri_of(place.file), []).append(lsp.TextEdit(self.range(declaring, place.start, place.end), text))
        return lsp.WorkspaceEdit(changes=changes)

    def _others(self, document: Document) -> Iterator[Document]:
        return (other for other in self.workspace.all() if other.name != document.name)

    # ── the whole text ──

    def symbols(self, document: Document) -> list[lsp.DocumentSymbol]:
        """The outline."""
        return [self._symbol(document, each) for each in navigation.outline(document)]

    def _symbol(self, document: Document, symbol: navigation.Symbol) -> lsp.DocumentSymbol:
        return lsp.DocumentSymbol(
            name=symbol.name,
            detail=symbol.kind,
            kind=_SYMBOLS.get(symbol.kind, lsp.SymbolKind.Property),
            range=self.range(document, symbol.start, symbol.end),
            selection_range=self.range(document, symbol.name_start, symbol.name_end),
            children=[self._symbol(document, each) for each in symbol.children],
        )

    def workspace_symbols(self, query: str) -> list[lsp.WorkspaceSymbol]:
        """The named parts of all documents that a query fits."""
        return [
            lsp.WorkspaceSymbol(
                name=symbol.name,
                kind=_SYMBOLS.get(symbol.kind, lsp.SymbolKind.Property),
                location=lsp.Location(uri_of(document.name), self.range(document, symbol.name_start, symbol.name_end)),
                container_name=Path(document.name).name,
            )
            for document, symbol in navigation.matching_symbols(query, self.workspace.all())
        ]

    def folding(self, document: Document) -> list[lsp.FoldingRange]:
        """The folding ranges."""
        kinds = {"comment": lsp.FoldingRangeKind.Comment, "region": lsp.FoldingRangeKind.Region}
        found = []
        for fold in navigation.folds(document):
            first, last = self.position(document, fold.start), self.position(document, fold.end)
            end_line = last.line if fold.kind == "comment" else last.line - 1
            if end_line > first.line:
                found.append(lsp.FoldingRange(first.line, end_line, kind=kinds[fold.kind]))
        return found

    def selection(self, document: Document, offsets: Iterable[int]) -> list[lsp.SelectionRange]:
        """The ranges that selections grow to."""
        found = []
        for offset in offsets:
            grown: lsp.SelectionRange | None = None
            for start, end in reversed(navigation.selections(document, offset)):
                grown = lsp.SelectionRange(self.range(document, start, end), grown)
            found.append(grown or lsp.SelectionRange(self.range(document, offset, offset)))
        return found

    def semantic_tokens(self, document: Document, start: int = 0, end: int | None = None) -> lsp.SemanticTokens:
        """The kinds of words, as the protocol packs them: each place relative to the one before."""
        data: list[int] = []
        line = unit = 0
        positions = self.positions(document)
        limit = len(document.text) if end is None else end
        for each in highlighting.highlights(document):
            if each.end < start or each.start > limit:
                continue
            at_line, at_unit = positions.at(each.start)
            length = positions.at(each.end)[1] - at_unit
            bits = sum(1 << highlighting.MODIFIERS.index(modifier) for modifier in each.modifiers)
            data += [at_line - line, at_unit - (unit if at_line == line else 0), length, highlighting.KINDS.index(each.kind), bits]
            line, unit = at_line, at_unit
        return lsp.SemanticTokens(data=data)

    def inlay_hints(self, document: Document, start: int, end: int) -> list[lsp.InlayHint]:
        """The inlay hints: inferred types, ranges and results."""
        return [
            lsp.InlayHint(self.position(document, each.offset), each.text, kind=lsp.InlayHintKind.Type, tooltip=each.doc)
            for each in self._hints.setdefault(document.name, InlayHints()).of(document, start, end)
        ]

    # ── changes and commands ──

    def actions(self, document: Document, start: int, end: int, given: Iterable[lsp.Diagnostic]) -> list[lsp.CodeAction]:
        """The changes that are possible at a place."""
        reported = {(each.code, each.range.start.line, each.range.start.character): each for each in given}
        found = [self._action(document, each, reported) for each in actions.actions(document, start, end)]
        if self.cluster is not None and document.checked.policy is not None:
            title = f"Make a test from a decision of {self.cluster.name}"
            command = lsp.Command(title, MAKE_TEST, arguments=[uri_of(document.name)])
            found.append(lsp.CodeAction(title=title, kind=lsp.CodeActionKind.Source, command=command))
        return found

    def _action(self, document: Document, action: Action, reported: Mapping[Any, lsp.Diagnostic]) -> lsp.CodeAction:
        edits = [lsp.TextEdit(self.range(document, each.start, each.end), each.text) for each in action.edits]
        fixed = None
        if action.fixes is not None:
            at = self.position(document, action.fixes.start)
            fixed = reported.get((action.fixes.code, at.line, at.character)) or self._diagnostic(document, action.fixes)
        return lsp.CodeAction(
            title=action.title,
            kind=lsp.CodeActionKind.QuickFix if action.fixes is not None else lsp.CodeActionKind.RefactorExtract,
            diagnostics=[fixed] if fixed is not None else None,
            edit=lsp.WorkspaceEdit(changes={uri_of(document.name): edits}),
        )

    def lenses(self, document: Document) -> list[lsp.CodeLens]:
        """The code lenses of tests and filters; their texts are computed when they are shown."""
        return [
            lsp.CodeLens(
                range=self.range(document, each.start, each.end),
                data={"uri": uri_of(document.name), "start": each.start, "test": each.test, "rule": each.rule},
            )
            for each in inline_texts.lenses(document, self.cluster)
        ]

    def resolved(self, lens: lsp.CodeLens) -> lsp.CodeLens:
        """A lens with its text."""
        data: Mapping[str, Any] = lens.data if isinstance(lens.data, Mapping) else {}
        document = self.known(str(data.get("uri", "")))
        if document is None:
            return lens
        if data.get("test") is not None:
            result = self._results.get((document.name, str(data["test"])), inline_texts.RUN)
            lens.command = lsp.Command(result, RUN_TEST, arguments=[data["uri"], data["start"]])
        else:
            lens.command = lsp.Command(self._passes(document, str(data.get("rule"))), "")
        return lens

    def _passes(self, document: Document, rule: str) -> str:
        policy = document.checked.policy
        if policy is None or self.cluster is None:
            return "the policy has errors"
        kept = self._passing.get(document.name)
        if kept is None or kept.policy is not policy:
            kept = self._passing[document.name] = PassingNodeCounts(policy, self.cluster)
        return kept.text(rule)

    def run_test(self, uri: str, start: int) -> str:
        """The outcome of a test as text. It is shown above the test until the text changes."""
        document = self.known(uri)
        result = inline_texts.test_result(document, start) if document is not None else None
        if document is None or result is None:
            return "the test cannot run: the policy has errors"
        shown = inline_texts.result_text(result)
        self._results[document.name, result.title] = "✓ passed" if result.passed else "✗ failed; run it again"
        return shown

    def test_edit(self, uri: str) -> lsp.WorkspaceEdit:
        """The edit that adds a test, made from a decision, at the end of a document; raises UsageError if no decision fits."""
        document = self.known(uri)
        if document is None or self.cluster is None:
            raise UsageError("a test is made from a decision of a cluster: start the server with --snapshot or --live")
        text = tests_of_decisions.decision_test(document, self.cluster)
        end = len(document.text)
        gap = "\n" if document.text.endswith("\n") else "\n\n"
        return lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(self.range(document, end, end), f"{gap}{text}")]})

    def forget_results(self, name: str) -> None:
        """Tests of a text that has changed have no result."""
        for key in [key for key in self._results if key[0] in {name, paired_file(name)}]:
            del self._results[key]


def _markdown(text: str) -> lsp.MarkupContent:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)

"""A policy text in an editor, with everything that is computed from it on first use. Findings have the messages of `wharf check`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from wharfinger.authoring.statements import Statement, Statements
from wharfinger.authoring.words import DECLARED_RULES, DECLARED_VALUES, Role, Word
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.errors import UsageError
from wharfinger.framework import chain_settings
from wharfinger.framework.registry import default_registry
from wharfinger.language import ast, files
from wharfinger.language.check.context import Notes
from wharfinger.language.format import format_verified
from wharfinger.language.load import Loader, OnDisk, Texts
from wharfinger.language.parse.parser import NAMED, parse
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report.diagnostics import Diagnostic, Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind

BYTE_ORDER_MARK = "\ufeff"
DECLARING = frozenset({"POLICY", "FOR", "IMPORT", "PARAM", "LET", "METRIC", "WORKLOAD"})
_NAMED = DECLARED_VALUES | DECLARED_RULES
_USES = frozenset({Role.VALUE, Role.FUNCTION})
_NOT_LINE_ENDS = re.compile(r"[^\r\n]")


class EditorTexts(Struct, frozen=True):
    """Texts that are open in an editor, before those that are stored."""

    texts: Mapping[str, str]
    stored: Texts = field(default_factory=OnDisk)

    def exists(self, name: str) -> bool:
        """True if there is a text of that name."""
        return name in self.texts or self.stored.exists(name)

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text; None, with a finding, if it is not a policy text. Raises UsageError if it cannot be read."""
        if name not in self.texts:
            return self.stored.read(name, diagnostics)
        return files.decode(self.texts[name].encode("utf-8", "surrogatepass"), name, diagnostics)


class _WithoutTests(Struct, frozen=True):
    """Texts without files of tests."""

    texts: Texts

    def exists(self, name: str) -> bool:
        """True if there is a text of that name that is no file of tests."""
        return not name.endswith(files.TEST_SUFFIX) and self.texts.exists(name)

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text; None, with a finding, if it is not a policy text. Raises UsageError if it cannot be read."""
        return self.texts.read(name, diagnostics)


class NoFiles:
    """No stored texts: a document without other files."""

    def exists(self, name: str) -> bool:  # noqa: ARG002 — a port
        """False: there are no texts."""
        return False

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:  # noqa: ARG002 — a port
        """Raise UsageError: there are no texts."""
        raise UsageError(f"cannot read {name}: there are no other files here")


class Checked(Struct, frozen=True, kw_only=True):
    """The results of parsing and checking a document.

    `file` is what of it could be read, `policy` is None where it has errors, `found` are the findings about this text, and `texts` the
    trees of all files that were read.
    """

    file: ast.File | None
    policy: typed.Policy | None
    notes: Notes
    found: tuple[Diagnostic, ...]
    texts: Mapping[str, ast.File | None]


class Document:
    """One version of a text. `texts` are where its tests and imports come from; without them it has no other files."""

    def __init__(self, name: str, text: str, version: int = 0, texts: Texts | None = None) -> None:
        # A byte order mark is no part of the text, but editors count it.
        self.text = " " + text[1:] if text.startswith(BYTE_ORDER_MARK) else text
        self.name = name
        self.version = version
        self._near: tuple[int, Document] | None = None
        self._uses: dict[int, frozenset[str]] = {}
        self._parameters: dict[int, dict[str, Word]] = {}  # of functions, by where their statements start
        self._known = frozenset[str]()
        self._stored = texts if texts is not None else NoFiles()
        self._texts = EditorTexts({name: self.text}, self._stored)

    def with_text(self, text: str) -> Document:
        """The document with another text."""
        return Document(self.name, text, self.version, self._stored)

    @cached_property
    def source(self) -> Source:
        """The text with its name."""
        return Source(name=self.name, text=self.text)

    @cached_property
    def formatted(self) -> str | None:
        """The text in its canonical layout, or None where it does not parse, or would be too large."""
        if not self._read.are_in_order():  # the parser would look for what was meant, which takes many times as long
            return None
        file, found = self._tree
        return None if file is None or found.has_errors else format_verified(file)

    @cached_property
    def _tree(self) -> tuple[ast.File | None, Diagnostics]:
        """The syntax tree of the text, and the diagnostics of parsing it."""
        found = Diagnostics()
        return parse(self.source, found), found

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the text."""
        return self._read.tokens()

    @cached_property
    def _read(self) -> Statements:
        return Statements(self.source)

    @cached_property
    def words(self) -> list[Word]:
        """The tokens with their roles, those in the placeholders of messages too."""
        return self._read.words()

    @cached_property
    def statements(self) -> list[Statement]:
        """The statements of the file."""
        return self._read.read()

    def statement_at(self, offset: int) -> Statement | None:
        """The statement around an offset."""
        return next((each for each in self.statements if each.start <= offset <= each.end), None)

    @cached_property
    def declarations(self) -> Document:
        """The document with its declarations only, at the same offsets. This is enough for the meanings of names."""
        return self._only(lambda each: each.kind in DECLARING)

    def around(self, offset: int) -> Document:
        """The checked text for an offset: the whole document if it has been checked, otherwise a part of it.

        It is the whole document too if one statement is most of it: to check both would take twice as long.
        """
        statement = None if self.is_checked else self.statement_at(offset)
        most = statement is not None and 2 * (statement.end - statement.start) > len(self.text)
        return self if self.is_checked or most else self.part(offset)

    def part(self, offset: int) -> Document:
        """The document with the statement around an offset and the declarations that it needs only, which takes less time to check."""
        statement = self.statement_at(offset)
        if statement is None:
            return self.declarations
        if self._near is None or self._near[0] != statement.start:
            self._near = (statement.start, self.of([statement]))
        return self._near[1]

    def of(self, wanted: Sequence[Statement]) -> Document:
        """The document with some statements and the declarations that they need only."""
        kept = self._needed(wanted).keys() | {each.start for each in wanted}
        return self._only(lambda each: each.start in kept)

    def needed_texts(self, statement: Statement) -> tuple[str, ...] | None:
        """The texts of a statement and of all declarations that it needs, after the text before the first statement.

        That text is the head of the policy if it is misspelt. None if a declaration is an import, whose text is in another file.
        """
        found = [statement, *(needed for _, needed in sorted(self._needed([statement]).items()))]
        if any(each.kind == "IMPORT" for each in found):
            return None
        return self.text[: self.statements[0].start], *(self.text[each.start : each.end] for each in found)

    def with_names(self, offset: int) -> Document:
        """The document as in `part`, where all other names are known without their meanings. This is enough for errors of the statement.

        Other statements that declare the same name are there too. For a test that uses an unknown name, all declarations and rules are.
        """
        statement = self.statement_at(offset)
        if statement is None:
            return self.declarations
        known = frozenset(name for each in self.statements for name in each.names(_NAMED))
        own = statement.names(_NAMED)
        kept = self._needed([statement]).keys() | {statement.start} | {each.start for each in self.statements if own & each.names(_NAMED)}
        if statement.kind == "TEST" and any(_names_of_policy(word) and word.name not in known for word in statement.words):
            kept |= {each.start for each in self.statements if each.kind != "TEST"}
        found = self._only(lambda each: each.start in kept)
        found._known = known  # noqa: SLF001  # of this class
        return found

    def _needed(self, wanted: Iterable[Statement]) -> dict[int, Statement]:
        """The statements that some statements need, by offset: the head of the policy, declarations of names that they use, and so on."""
        found = {each.start: each for each in self._heads}
        pending = [*self._heads, *wanted]
        followed = frozenset[str]()  # a name may be declared many times, by mistake
        while pending:
            names = self._used(pending.pop()) - followed
            followed |= names
            new = {each.start: each for name in names for each in self._declaring[name] if each.start not in found}
            found |= new
            pending += new.values()
        return found

    @cached_property
    def _heads(self) -> list[Statement]:
        return [each for each in self.statements if each.kind in {"POLICY", "FOR"}]

    def _used(self, statement: Statement) -> frozenset[str]:
        """The declared names that a statement uses, and those that it declares: others that declare them too are an error."""
        if statement.start not in self._uses:
            self._uses[statement.start] = frozenset(statement.names(_USES | DECLARED_VALUES) & self._declaring.keys())
        return self._uses[statement.start]

    @cached_property
    def _declaring(self) -> dict[str, list[Statement]]:
        """The declarations by the names that they declare."""
        found: dict[str, list[Statement]] = {}
        for each in self.statements:
            for name in each.names(DECLARED_VALUES):
                found.setdefault(name, []).append(each)
        return found

    def _only(self, kept: Callable[[Statement], bool]) -> Document:
        """The document with spaces for the other statements, and without the tests in the paired file."""
        written, at = [], 0
        for each in self.statements:
            if not kept(each):
                written += [self.text[at : each.start], _NOT_LINE_ENDS.sub(" ", self.text[each.start : each.end])]
                at = each.end
        text = "".join([*written, self.text[at:]])
        return Document(self.name, text, self.version, _WithoutTests(self._stored))

    @property
    def is_checked(self) -> bool:
        """True if the whole text has been checked."""
        return "checked" in self.__dict__

    @cached_property
    def checked(self) -> Checked:
        """The results of parsing and checking the text with its tests and imports."""
        notes = Notes()
        loader = Loader(catalogue=CATALOGUE, texts=self._texts, notes=notes, parse=self._parsed)
        loader.add(self.name)
        policies = loader.policies()
        policy = next((policy for policy in policies if policy is not None), None)
        return Checked(
            file=loader.files[self.name],
            policy=policy,
            notes=notes,
            found=tuple(each for each in loader.diagnostics if each.span.source.name == self.name),
            texts=loader.files,
        )

    def _parsed(self, source: Source, diagnostics: Diagnostics) -> ast.File | None:
        """The tree of a text; names of statements that were left out of this one count as declared."""
        if source != self.source:
            return parse(source, diagnostics)
        file, found = self._tree
        for diagnostic in found:
            diagnostics.add(diagnostic)
        if file is None or not self._known:
            return file
        items = file.policy.items if file.policy is not None else file.items
        declared = {item.name for item in (*items, *file.imports) if isinstance(item, NAMED)}
        return replace(file, lost=file.lost | (self._known - declared))

    @cached_property
    def cost_findings(self) -> tuple[Diagnostic, ...]:
        """Findings about the cost of the policy; empty if it has errors."""
        diagnostics = Diagnostics()
        if self.checked.policy is not None:
            cost.report(self.checked.policy, diagnostics, cost.of_policy(self.checked.policy))
        return tuple(each for each in diagnostics if each.span.source.name == self.name)

    def refused_arguments(self) -> Iterator[tuple[str, int, int]]:
        """Sentences of plugins about their arguments, with the characters of their names."""
        if self.checked.policy is not None:
            for span, sentence in chain_settings.refused_arguments(self.checked.policy, default_registry()):
                if span.source.name == self.name:
                    yield sentence, span.start, span.end

    @cached_property
    def expressions(self) -> dict[tuple[int, int], typed.Expr]:
        """The typed expressions of this text by their places."""
        return {
            (expr.span.start, expr.span.end): found
            for expr, found in self.checked.notes.expressions
            if expr.span.source.name == self.name and found.type.kind is not Kind.UNKNOWN
        }

    def parameter(self, word: Word) -> Word | None:
        """The word that declares the parameter which a word names; None for any other word."""
        if word.item != "LET" or word.role not in {Role.PARAMETER, Role.VALUE}:
            return None
        statement = self.statement_at(word.start)
        return None if statement is None else self._parameters_of(statement).get(word.name)

    def _parameters_of(self, statement: Statement) -> dict[str, Word]:
        """The first declaration of each parameter of a function, by name."""
        found = self._parameters.get(statement.start)
        if found is None:
            declared = [word for word in statement.words if word.role is Role.PARAMETER]
            found = self._parameters[statement.start] = {word.name: word for word in reversed(declared)}
        return found

    def word_at(self, offset: int) -> Word | None:
        """The word at an offset, or directly before it. Of two adjacent words, the one that is not a symbol."""
        low, high = 0, len(self.words)
        while low < high:
            middle = (low + high) // 2
            if self.words[middle].end < offset:
                low = middle + 1
            else:
                high = middle
        near = [word for word in self.words[low : low + 12] if word.start <= offset <= word.end]
        return max(near, key=lambda word: (word.text.isidentifier(), word.start - word.end, offset < word.end), default=None)


def _names_of_policy(word: Word) -> bool:
    """True for a word of a test that names a rule, param or metric."""
    return word.role is Role.RULE or (word.role is Role.VALUE and word.owner in {"PARAM", "METRIC"})


class Finding(Struct, frozen=True, kw_only=True):
    """One finding about characters `start` to `end`. `code` is empty for findings of plugins about their arguments.

    `others` are further places, each with its file, its characters and a few words. `suggestion` replaces the characters unless it is None.
    """

    start: int
    end: int
    severity: str  # "error" or "warning"
    code: str
    message: str
    label: str = ""
    help: str | None = None
    suggestion: str | None = None
    others: tuple[tuple[str, int, int, str], ...] = ()

    @property
    def text(self) -> str:
        """The text of the finding: the message, the label of the position, and the help."""
        labelled = f"{self.message}: {self.label}" if self.label and self.label not in self.message else self.message
        return f"{labelled}\nhelp: {self.help}" if self.help else labelled


def findings(document: Document) -> list[Finding]:
    """The findings about a document in the order of the text."""
    refused_arguments = [
        Finding(start=start, end=end, severity="error", code="", message=message) for message, start, end in document.refused_arguments()
    ]
    found = (*document.checked.found, *document.cost_findings)
    return sorted((*map(_finding, found), *refused_arguments), key=lambda each: (each.start, each.end))


def _finding(diagnostic: Diagnostic) -> Finding:
    span = diagnostic.span
    return Finding(
        start=span.start,
        end=span.end,
        severity=diagnostic.severity.value,
        code=diagnostic.code.name,
        message=diagnostic.message,
        label=diagnostic.label,
        help=diagnostic.help,
        suggestion=diagnostic.suggestion,
        others=tuple((label.span.source.name, label.span.start, label.span.end, label.text) for label in diagnostic.others),
    )

"""A policy text as an editor holds it, and everything that is known about it, found out when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from wharfinger.authoring.words import Word, tokens_of, words_of
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.errors import UsageError
from wharfinger.framework.configuration import chain_settings
from wharfinger.framework.registry import default_registry
from wharfinger.language import files
from wharfinger.language.check.context import Notes
from wharfinger.language.load import Loader, OnDisk, Texts
from wharfinger.language.parse.tokens import Token
from wharfinger.language.report.diagnostics import Diagnostic, Diagnostics, Source
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Kind
from wharfinger.language.syntax import ast

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Opened:
    """Texts that are open in an editor, before those that are stored."""

    texts: Mapping[str, str]
    stored: Texts = field(default_factory=OnDisk)

    def exists(self, name: str) -> bool:
        """True if there is a text of that name."""
        return name in self.texts or self.stored.exists(name)

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text, None with a finding if it is no policy text; raises UsageError if it cannot be read."""
        if name not in self.texts:
            return self.stored.read(name, diagnostics)
        return files.decode(self.texts[name].encode("utf-8", "surrogatepass"), name, diagnostics)


class Nowhere:
    """No stored texts: a document that stands alone."""

    def exists(self, name: str) -> bool:  # noqa: ARG002 — a port
        """False: there are no texts."""
        return False

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:  # noqa: ARG002 — a port
        """Raises UsageError: there are no texts."""
        raise UsageError(f"cannot read {name}: there are no other files here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What parsing and checking a document gave.

    `file` is what of it could be read, `policy` is None where it has errors, `found` are the findings about this text as `wharf check`
    reports them, `refused` sentences of plugins about their arguments, with the places. `texts` are the trees of all files that were read.
    """

    file: ast.File | None
    policy: typed.Policy | None
    notes: Notes
    found: tuple[Diagnostic, ...]
    refused: tuple[tuple[str, int, int], ...]
    texts: Mapping[str, ast.File | None]


class Document:
    """One version of a text. `texts` are where its tests and imports come from; without them it stands alone."""

    def __init__(self, name: str, text: str, version: int = 0, texts: Texts | None = None) -> None:
        # A byte order mark is no part of the text, but editors count it.
        self.text = " " + text[1:] if text.startswith(BYTE_ORDER_MARK) else text
        self.name = name
        self.version = version
        self._stored = texts if texts is not None else Nowhere()
        self._texts = Opened({name: self.text}, self._stored)

    def with_text(self, text: str, version: int | None = None) -> Document:
        """The document with another text."""
        return Document(self.name, text, self.version if version is None else version, self._stored)

    @cached_property
    def source(self) -> Source:
        """The text with its name."""
        return Source(name=self.name, text=self.text)

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the text."""
        return tokens_of(self.source)

    @cached_property
    def words(self) -> list[Word]:
        """The tokens with their roles, those in the placeholders of messages too."""
        return words_of(self.source, self.tokens)

    @cached_property
    def checked(self) -> Checked:
        """What parsing and checking the text with its tests and imports gives."""
        notes = Notes()
        loader = Loader(catalogue=CATALOGUE, texts=self._texts, notes=notes)
        loader.add(self.name)
        policies = loader.policies()
        policy = next((policy for policy in policies if policy is not None), None)
        if policy is not None:
            cost.report(policy, loader.diagnostics, cost.of_policy(policy))
        return Checked(
            file=loader.files[self.name],
            policy=policy,
            notes=notes,
            found=tuple(each for each in loader.diagnostics if each.span.source.name == self.name),
            refused=tuple(self._refused(policy)) if policy is not None else (),
            texts=loader.files,
        )

    def _refused(self, policy: typed.Policy) -> Iterator[tuple[str, int, int]]:
        for entry in policy.base:
            if entry.arguments and entry.span.source.name == self.name:
                try:
                    chain_settings.arguments(default_registry()[entry.plugin], entry.arguments)
                except UsageError as error:
                    yield str(error), entry.span.start, entry.span.end

    @cached_property
    def expressions(self) -> dict[tuple[int, int], typed.Expr]:
        """The typed expressions of this text by their places."""
        return {
            (expr.span.start, expr.span.end): found
            for expr, found in self.checked.notes.expressions
            if expr.span.source.name == self.name and found.type.kind is not Kind.UNKNOWN
        }

    def word_at(self, offset: int) -> Word | None:
        """The word that an offset is in, or directly behind; of two that touch there, the one that is no symbol."""
        low, high = 0, len(self.words)
        while low < high:
            middle = (low + high) // 2
            if self.words[middle].end < offset:
                low = middle + 1
            else:
                high = middle
        near = [word for word in self.words[low : low + 12] if word.start <= offset <= word.end]
        return max(near, key=lambda word: (word.text.isidentifier(), word.start - word.end, offset < word.end), default=None)

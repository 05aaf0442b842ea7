"""Imports: the names of libraries, each checked once for all files that import it in the same way."""

from __future__ import annotations

import itertools
import math
import posixpath
from collections.abc import Hashable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from wharfinger.language import ast
from wharfinger.language.check.context import MAX_FINDINGS, MAX_STEPS, Binding, Context, Grouping, WorkBudget
from wharfinger.language.check.declarations import Declared, declare
from wharfinger.language.check.expressions.aggregates import GROUP
from wharfinger.language.check.expressions.names import SUBJECTS
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostic, Label, Span
from wharfinger.language.semantics.authority import CLUSTER

MAX_PREFIX_LENGTH = 1000
"""The maximum length of the names of the imports that lead to a library: they stand before each of its names."""


def import_key(importing: str, path: str) -> str:
    """The name under which a file must be offered: the path of an `import` relative to the file named `importing`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importing), path))


class CheckedLibraries:
    """The outcomes of checking libraries, kept for other files that import the same libraries.

    An outcome depends on the text of the library, the prefix of its names, the libraries that were checked before it, and those of its
    imports that can be read. If all of these are equal, the outcome is equal.

    `limit` is the number of outcomes that are kept; then all are dropped. Several threads may use one object.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._known: dict[Hashable, _Outcome] = {}
        self._numbers = itertools.count(1)

    def declare(self, inner: Context, declared: Declared, file: ast.File, prefix: str, after: int) -> int:
        """Declare the items of a library, whose imports are declared; return the number of the outcome.

        `after` is the number of the outcome before it.
        """
        read = tuple(name for name, binding in inner.names.items() if binding.members is not None)
        key = after, id(file), prefix, read
        known = self._known.get(key)
        if known is None or not known.fits(inner.work):
            if len(self._known) >= self._limit:
                self._known.clear()
            known = self._known[key] = _Outcome.of(inner, declared, file, prefix, next(self._numbers))
        else:
            known.take_over(inner, declared)
        return known.number


class _Outcome(msgspec.Struct, kw_only=True):
    """The names and declarations that the check of a library has added, and its cost.

    `file` is kept so that its id stays its own. `letters` are those left for suggestions.
    """

    number: int
    file: ast.File
    names: dict[str, Binding]
    added: tuple[dict[Any, Any], ...]
    declared: tuple[list[Any], ...]
    findings: list[Diagnostic]
    n_findings: int
    steps: int
    letters: int
    at: Span | None

    @staticmethod
    def of(inner: Context, declared: Declared, file: ast.File, prefix: str, number: int) -> _Outcome:
        """The outcome of declaring the items of a library now."""
        work = inner.work
        lengths = [len(table) for table in _tables(inner)], [len(found) for found in _lists(declared)], len(inner.diagnostics)
        steps, n_findings, imports = work.steps, work.findings, set(inner.names)
        declare(inner, declared, file.items, prefix)
        return _Outcome(
            number=number,
            file=file,
            names=_copies({name: binding for name, binding in inner.names.items() if name not in imports}),
            added=tuple(dict(itertools.islice(table.items(), n, None)) for table, n in zip(_tables(inner), lengths[0], strict=True)),
            declared=tuple(found[n:] for found, n in zip(_lists(declared), lengths[1], strict=True)),
            findings=inner.diagnostics.found[lengths[2] :],
            n_findings=work.findings - n_findings,
            steps=work.steps - steps,
            letters=inner.suggestions.letters,
            at=work.at,
        )

    def fits(self, work: WorkBudget) -> bool:
        """True if the check of the library would come to its end."""
        return work.steps + self.steps <= MAX_STEPS and work.findings + self.n_findings <= MAX_FINDINGS

    def take_over(self, inner: Context, declared: Declared) -> None:
        """Add the outcome to another context, as if the library were checked again."""
        inner.work.steps += self.steps
        inner.work.findings += self.n_findings
        inner.work.at = self.at
        inner.suggestions.letters = self.letters
        for diagnostic in self.findings:
            inner.diagnostics.add(diagnostic)
        for table, added in zip(_tables(inner), self.added, strict=True):
            table.update(added)
        for found, more in zip(_lists(declared), self.declared, strict=True):
            found.extend(more)
        inner.names.update(_copies(self.names))


def _tables(context: Context) -> tuple[dict[Any, Any], ...]:
    """The tables of a context that declarations fill, without the names."""
    return context.lets, context.heights, context.calls, context.intervals.params, context.intervals.lets


def _lists(declared: Declared) -> tuple[list[Any], ...]:
    return declared.params, declared.metrics, declared.workloads


def _copies(names: Mapping[str, Binding]) -> dict[str, Binding]:
    """Copies of bindings: whether a name is used is noted for each file."""
    return {name: replace(binding) for name, binding in names.items()}


class _Libraries(msgspec.Struct, kw_only=True):
    """Libraries as they are met: their names once they are checked, None while they are being checked.

    `last` is the number of the last outcome among those that were `checked` for other files too.
    """

    declared: Declared
    files: Mapping[str, ast.File | None]
    checked: CheckedLibraries
    last: int = 0
    names: dict[str, dict[str, Binding] | None] = msgspec.field(default_factory=dict)


def import_all(
    context: Context, declared: Declared, file: ast.File, files: Mapping[str, ast.File | None], checked: CheckedLibraries | None = None
) -> None:
    """Add the imports of a file to the context's names, and their sources to what is declared.

    Libraries that were `checked` for other files are not checked again, unless notes of the check are wanted.
    """
    shared = checked if checked is not None and context.notes is None else CheckedLibraries()
    _import_into(context, _Libraries(declared=declared, files=files, checked=shared), file, "")


def _import_into(context: Context, libraries: _Libraries, file: ast.File, prefix: str) -> None:
    for item in file.imports:
        if item.name in SUBJECTS or item.name == GROUP or item.name in context.names:
            _report_name_in_use(context, item)
            continue
        members = _library(context, libraries, item, prefix)
        context.names[item.name] = Binding(name=prefix + item.name, what="import", span=item.name_span, members=members)


def _report_name_in_use(context: Context, item: ast.Import) -> None:
    first = context.names.get(item.name)
    if first is None:
        context.error(Code.P311, f"`{item.name}` cannot be the name of an import", item.name_span, label="always means something else")
    else:
        others = (Label(first.span, "first declared here"),)
        context.error(Code.P306, f"`{item.name}` is already an import", item.name_span, label="declared again", others=others)


def _library(context: Context, libraries: _Libraries, item: ast.Import, prefix: str) -> dict[str, Binding] | None:
    """The names of a library; None if it cannot be read, so that names taken from it are not reported."""
    key = import_key(item.span.source.name, item.path.value)
    file = libraries.files.get(key)
    if key in libraries.names:
        found = libraries.names[key]
        if found is None:
            context.error(Code.P308, f"`{item.path.value}` imports itself", item.path.span, label="goes in a circle")
        return found
    if file is None:
        if key not in libraries.files:
            message = f"`{item.path.value}` cannot be read"
            context.error(Code.P308, message, item.path.span, label="not found", help="the path is relative to this file")
        return None
    if len(prefix) + len(item.name) > MAX_PREFIX_LENGTH:
        message = f"the names of imports before a name have at most {MAX_PREFIX_LENGTH:,} characters together"
        context.error(Code.P011, message, item.name_span, label="too long with this one", help="give imports shorter names")
        return None
    if file.policy is not None:
        context.error(
            Code.P308,
            f"`{item.path.value}` is a policy, not a library",
            item.path.span,
            label="contains a policy",
            help="move what both need into a file without a `policy` line, and import that",
        )
        return None
    libraries.names[key] = None
    inner = replace(
        context, names={}, authority=CLUSTER, grouping=Grouping(library=True)
    )  # the authors of the cluster share the library and know its reads
    _import_into(inner, libraries, file, f"{prefix}{item.name}.")
    libraries.last = libraries.checked.declare(inner, libraries.declared, file, f"{prefix}{item.name}.", libraries.last)
    libraries.declared.sources.append(file.span.source)
    libraries.names[key] = {name: binding for name, binding in inner.names.items() if binding.members is None}
    return libraries.names[key]

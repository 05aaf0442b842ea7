"""`import "file" as name`: the declarations of other files under a name.

Here the files are already read (`load` does that); this is about what they offer. A library that is imported twice is checked once, and
its lets are shared.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wharfinger.language import ast
from wharfinger.language.authority import CLUSTER
from wharfinger.language.check.attributes import SUBJECTS
from wharfinger.language.check.context import Binding, Context
from wharfinger.language.check.declarations import Declared, declare
from wharfinger.language.codes import Code
from wharfinger.language.diagnostics import Label

LONGEST_PREFIX = 1000  # a name of a library is kept with the names of the imports that lead to it in front


def import_key(importing: str, path: str) -> str:
    """The name under which a file must be offered: the path of an `import` relative to the file named `importing`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(importing), path))


@dataclass(slots=True, kw_only=True)
class _Libraries:
    """Libraries as they are met: their names once they are checked, None while they are being checked."""

    declared: Declared
    files: Mapping[str, ast.File | None]
    names: dict[str, dict[str, Binding] | None] = field(default_factory=dict)


def import_all(context: Context, declared: Declared, file: ast.File, files: Mapping[str, ast.File | None]) -> None:
    """Adds the imports of a file to the context's names, and their sources to what is declared."""
    _import_into(context, _Libraries(declared=declared, files=files), file, "")


def _import_into(context: Context, libraries: _Libraries, file: ast.File, prefix: str) -> None:
    for item in file.imports:
        if item.name in SUBJECTS or item.name in context.names:
            _taken(context, item)
            continue
        members = _library(context, libraries, item, prefix)
        context.names[item.name] = Binding(name=prefix + item.name, what="import", span=item.name_span, members=members)


def _taken(context: Context, item: ast.Import) -> None:
    first = context.names.get(item.name)
    if first is None:
        context.error(Code.P311, f"`{item.name}` cannot be the name of an import", item.name_span, label="always means something else")
    else:
        others = (Label(first.span, "first declared here"),)
        context.error(Code.P306, f"`{item.name}` is already an import", item.name_span, label="declared again", others=others)


def _library(context: Context, libraries: _Libraries, item: ast.Import, prefix: str) -> dict[str, Binding] | None:
    """The names of a library; None when there is none, which silences what is taken from it."""
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
    if len(prefix) + len(item.name) > LONGEST_PREFIX:
        message = f"the names of imports that stand in front of a name have at most {LONGEST_PREFIX:,} characters together"
        context.error(Code.P011, message, item.name_span, label="too long with this one", help="give imports shorter names")
        return None
    if file.policy is not None:
        context.error(
            Code.P308,
            f"`{item.path.value}` is a policy, not a library",
            item.path.span,
            label="holds a policy",
            help="move what both need into a file without a `policy` line, and import that",
        )
        return None
    libraries.names[key] = None
    inner = replace(context, names={}, authority=CLUSTER)  # whoever shares a library has seen what it reads
    _import_into(inner, libraries, file, f"{prefix}{item.name}.")
    declare(inner, libraries.declared, file.items, f"{prefix}{item.name}.")
    libraries.declared.sources.append(file.span.source)
    libraries.names[key] = {name: binding for name, binding in inner.names.items() if binding.members is None}
    return libraries.names[key]

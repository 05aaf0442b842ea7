"""Typed policies from files, folders, standard input, and from sets of texts that are no files of this machine.

All errors in the content of files become diagnostics. Only a path that the caller named and that cannot be read raises `UsageError`,
because there is no file to report on. A set of texts is the keys of a ConfigMap, the content of a folder at one moment, or a resource. Its
texts are checked one by one, so that a caller with many texts can work in small steps and check only those that have changed.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import msgspec

from wharfinger.errors import UsageError
from wharfinger.language import ast
from wharfinger.language.check import CheckedLibraries, check
from wharfinger.language.check.conflicts import report_conflicts
from wharfinger.language.check.context import Notes
from wharfinger.language.check.lints import allowed_by
from wharfinger.language.files import (
    NO_POLICIES_MARKER,
    SUFFIX,
    TEST_SUFFIX,
    decode,
    imported,
    only_tests,
    paired_file,
    read_source,
    read_stream,
    with_tests,
)
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics, Source, Span
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import Catalogue
from wharfinger.user_input import standard_input

_OF_NAMESPACES = CheckedLibraries(limit=16)
"""The libraries for policies of namespaces: each text is in a set of its own. The name behind `as` is an author's, so few are kept."""


class CheckedText(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of checking a text. `policy` is None if it has errors, or is a library or a file of tests.

    `title` is the name that its `policy` line gives, also where the rest has errors; None if none can be read. `without_policy` is
    true for a library or a file of tests. `needs` are the names of the other texts that the outcome depends on, existing or not.
    """

    policy: typed.Policy | None
    title: str | None
    without_policy: bool
    needs: frozenset[str]


class TextSet(msgspec.Struct, kw_only=True):
    """Texts by name; imports use the names as paths. Without `imports`, texts cannot import each other.

    Such a text can import only the libraries of its authority.
    """

    texts: Mapping[str, bytes]
    imports: bool = True
    _parsed: dict[str, tuple[ast.File | None, Diagnostics]] = msgspec.field(default_factory=dict)
    _libraries: CheckedLibraries = msgspec.field(default_factory=CheckedLibraries)

    def check(self, name: str, catalogue: Catalogue, diagnostics: Diagnostics, authority: Authority = CLUSTER) -> CheckedText:
        """The policy of one text with its tests and imports, owned by `authority`; errors are added to `diagnostics`."""
        file = self._read(name, diagnostics)
        paired = paired_file(name)
        needs = {paired} if paired is not None else set()
        if file is None:
            return CheckedText(policy=None, title=None, without_policy=False, needs=frozenset(needs))
        if only_tests(file):
            self._belongs(name, file, diagnostics)
            return CheckedText(policy=None, title=None, without_policy=True, needs=frozenset(needs))
        file = self._with_tests(name, file, diagnostics)
        files = imported(file, partial(self._fetch, needs, diagnostics, authority), diagnostics, _IMPORT_HELP_OF_SET)
        shared = not self.imports and bool(authority.libraries)
        policy = check(file, catalogue, diagnostics, dict(files), authority, libraries=_OF_NAMESPACES if shared else self._libraries)
        if policy is not None and file.policy is not None:
            report_conflicts([policy], allowed_by(file.policy), diagnostics)
        title = file.policy.name.value if file.policy is not None else None
        return CheckedText(policy=policy, title=title, without_policy=file.policy is None, needs=frozenset(needs))

    def _read(self, name: str, diagnostics: Diagnostics) -> ast.File | None:
        """The syntax tree of a text. Its findings are reported on each read."""
        if name not in self._parsed:
            found = Diagnostics()
            source = decode(self.texts[name], name, found)
            self._parsed[name] = (None if source is None else parse(source, found), found)
        file, found = self._parsed[name]
        for diagnostic in found:
            diagnostics.add(diagnostic)
        return file

    def _with_tests(self, name: str, file: ast.File, diagnostics: Diagnostics) -> ast.File:
        paired = paired_file(name)
        if paired is None or paired not in self.texts or name.endswith(TEST_SUFFIX):
            return file
        return with_tests(file, self._read(paired, diagnostics))

    def _belongs(self, name: str, file: ast.File, diagnostics: Diagnostics) -> None:
        tested = paired_file(name) if name.endswith(TEST_SUFFIX) else None
        if tested not in self.texts:
            title = file.tests[0].title.span
            help_ = f"put them into the file of the rules, or into a file named `X{TEST_SUFFIX}` next to `X{SUFFIX}`"
            diagnostics.error(Code.P604, "these tests belong to no policy", title, label="the first of them", help=help_)

    def _fetch(self, needs: set[str], diagnostics: Diagnostics, authority: Authority, key: str) -> ast.File | str:
        if not self.imports and authority.libraries:
            shared = authority.library(posixpath.basename(key))
            if shared is None:
                return f"policies of a namespace import only {listed(name for name, _ in authority.libraries)}"
            file, found = _parsed_library(key, shared)
            for diagnostic in found:
                diagnostics.add(diagnostic)
            return file or "it has no declarations"
        needs.add(key)
        if not self.imports:
            return "this policy has no other files to import"
        if key not in self.texts:
            return f"there is no such {SUFFIX} file where this one comes from"
        return self._read(key, diagnostics) or "it has no declarations"


@lru_cache(maxsize=64)
def _parsed_library(name: str, text: str) -> tuple[ast.File | None, Diagnostics]:
    """The syntax tree and the findings of a library that all namespaces may import; cached, because texts of many sets import it."""
    found = Diagnostics()
    return parse(Source(name=name, text=text), found), found


_IMPORT_HELP_OF_SET = "only files of the same folder or ConfigMap can be imported"


STDIN = "-"


def load_policies(
    paths: Sequence[str | Path], catalogue: Catalogue, authority: Authority = CLUSTER
) -> tuple[list[typed.Policy | None], Diagnostics]:
    """The policy of each file (None if it has errors or holds none), in the order of the paths, and everything found wrong.

    They are checked as policies of `authority`; what they import counts as shared by the cluster.

    A folder means the `*.policy` files in it and below, sorted; `-` for standard input. `X_test.policy` adds its tests to the policy of
    `X.policy` in the same folder; if one of the two is given, the other is read too. Raises `UsageError` for a path that cannot be read.
    """
    loader = Loader(catalogue=catalogue, authority=authority)
    for name in policy_files(paths):
        loader.add(name)
    return loader.policies(), loader.diagnostics


def policy_files(paths: Iterable[str | Path]) -> list[str]:
    """The names of the files of some paths, each once; raises `UsageError` for a path that does not exist."""
    found: dict[str, None] = {}
    for path in map(str, paths):
        if path != STDIN and Path(path).is_dir():
            found.update(dict.fromkeys(_files_below(path)))
        elif path == STDIN or Path(path).exists():
            found[path] = None
        else:
            raise UsageError(f"cannot read {path}: no such file or folder")
    return list(found)


def _files_below(folder: str) -> list[str]:
    """The policy files in a folder and below, sorted; raises `UsageError` if there are unexpectedly none, or for what cannot be read."""

    def refuse(error: OSError) -> None:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}")

    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]  # .git, .venv: nothing of the user's own
        found.extend(Path(parent, name) for name in names if name.endswith(SUFFIX))
    if not found and not Path(folder, NO_POLICIES_MARKER).exists():
        raise UsageError(f"{folder}: no *{SUFFIX} files in this folder")
    return sorted(str(path) for path in found if _is_file(path))


def _is_file(path: Path) -> bool:
    """True for a file; False for what editors leave, as Emacs' `.#a.policy`. Raises `UsageError` for what else cannot be read."""
    if path.is_file():
        return True
    if path.name.startswith("."):
        return False
    raise UsageError(f"cannot read {path}: {'it is a link that leads to no file' if path.is_symlink() else 'it is not a regular file'}")


class Texts(Protocol):
    """A source of texts by their names, which are paths."""

    def exists(self, name: str) -> bool:
        """True if there is a text of that name."""

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text; None, with a finding, if it is not a policy text. Raises UsageError if it cannot be read."""


class OnDisk:
    """The files of this machine, and standard input."""

    def exists(self, name: str) -> bool:
        """True if there is a file of that name."""
        return os.path.isfile(name)  # noqa: PTH113 — Path.is_file raises for a name that is too long

    def read(self, name: str, diagnostics: Diagnostics) -> Source | None:
        """The text of a file; None, with a finding, if it is not a policy text. Raises UsageError if it cannot be read."""
        return read_stream(standard_input(), "<stdin>", diagnostics) if name == STDIN else read_source(name, diagnostics)


Parse = Callable[[Source, Diagnostics], "ast.File | None"]


class Loader(msgspec.Struct, kw_only=True):
    """Files as they are read, by name; None for one that holds no policy text. `notes` keeps facts that checks find."""

    catalogue: Catalogue
    authority: Authority = CLUSTER
    texts: Texts = msgspec.field(default_factory=OnDisk)
    parse: Parse = parse
    notes: Notes | None = None
    diagnostics: Diagnostics = msgspec.field(default_factory=Diagnostics)
    files: dict[str, ast.File | None] = msgspec.field(default_factory=dict)
    wanted: list[str] = msgspec.field(default_factory=list)
    libraries: CheckedLibraries = msgspec.field(default_factory=CheckedLibraries)

    def add(self, name: str) -> None:
        """Read a file and its pair: the file of its tests, or the file that it tests."""
        partner = paired_file(name)
        if name in self.files:
            return
        self.read(name)
        if partner is not None and self.texts.exists(partner) and partner not in self.files:
            self.read(partner)
            if name.endswith(TEST_SUFFIX):
                self.wanted.append(partner)
        self.wanted.append(name)

    def read(self, name: str) -> ast.File | None:
        """The syntax tree of a file; raises `UsageError` when it cannot be read."""
        if name not in self.files:
            self.files[name] = None  # also for one whose reading fails
            source = self.texts.read(name, self.diagnostics)
            self.files[name] = self.parse(source, self.diagnostics) if source is not None else None
        return self.files[name]

    def policies(self) -> list[typed.Policy | None]:
        """The policy of each wanted file that is not only tests."""
        found: list[typed.Policy | None] = []
        for name in dict.fromkeys(self.wanted):
            file = self.files[name]
            if file is not None and only_tests(file):
                self._tests_belong(name, file)
            else:
                found.append(self.checked(self._with_tests(name, file)) if file is not None else None)
        self._unique_names()
        syntax = [file.policy for file in self.files.values() if file is not None and file.policy is not None]
        allowed = {span: codes for policy in syntax for span, codes in allowed_by(policy).items()}
        report_conflicts([policy for policy in found if policy is not None], allowed, self.diagnostics)
        return found

    def _with_tests(self, name: str, file: ast.File) -> ast.File:
        """A file with the tests of its `_test.policy` file, if that was read."""
        paired = paired_file(name)
        return with_tests(file, self.files.get(paired) if paired is not None and not name.endswith(TEST_SUFFIX) else None)

    def _tests_belong(self, name: str, file: ast.File) -> None:
        """Report tests that belong to no policy."""
        tested = self.files.get(paired_file(name) or "") if name.endswith(TEST_SUFFIX) else None
        if tested is not None and tested.policy is not None:
            return
        paired = f"`{paired_file(name)}`" if name.endswith(TEST_SUFFIX) else f"a file named `X{TEST_SUFFIX}` next to `X{SUFFIX}`"
        title = file.tests[0].title.span
        help_ = (
            f"they are tests of the policy in {paired}"
            if name.endswith(TEST_SUFFIX)
            else f"put them into the file of the rules, or into {paired}"
        )
        self.diagnostics.error(Code.P604, "these tests belong to no policy", title, label="the first of them", help=help_)

    def checked(self, file: ast.File) -> typed.Policy | None:
        """The typed policy of a file with its imports."""
        files = imported(file, self._fetch, self.diagnostics, _IMPORT_HELP)
        return check(file, self.catalogue, self.diagnostics, dict(files), self.authority, self.notes, self.libraries)

    def _fetch(self, key: str) -> ast.File | str:
        if not key.endswith(SUFFIX):  # a diagnostic quotes its text, which must not be a secret
            return f"only {SUFFIX} files can be imported"
        try:
            return self.read(key) or f"{key} has no declarations"
        except UsageError as error:
            return str(error).rpartition(": ")[2].lower()

    def _unique_names(self) -> None:
        """Report policies that share a name."""
        seen: dict[str, Span] = {}
        for name in dict.fromkeys(self.wanted):
            file = self.files[name]
            if file is None or file.policy is None:
                continue
            title = file.policy.name
            if title.value in seen:
                help_ = f"the other one is at {seen[title.value]}; rename one of the two"
                self.diagnostics.error(Code.P601, f"there are two policies `{title.value}`", title.span, label="named again", help=help_)
            seen.setdefault(title.value, title.span)


_IMPORT_HELP = "the path is relative to this file"

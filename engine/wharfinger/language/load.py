"""Paths to typed policies: files, folders, standard input, imports and tests kept in files of their own.

Everything that is wrong with what the files say becomes a diagnostic. Only a path that the caller named and that cannot be read at all
raises `UsageError`, because then there is no file to speak about.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.language.check import check
from wharfinger.language.check.conflicts import report_conflicts
from wharfinger.language.check.lints import allowed_by
from wharfinger.language.files import (
    NONE_MEANT,
    SUFFIX,
    TEST_SUFFIX,
    imported,
    only_tests,
    paired_file,
    read_source,
    read_stream,
    with_tests,
)
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.report.source import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import Catalogue
from wharfinger.language.syntax import ast

STDIN = "-"


def load_policies(
    paths: Sequence[str | Path], catalogue: Catalogue, authority: Authority = CLUSTER
) -> tuple[list[typed.Policy | None], Diagnostics]:
    """The policy of each file (None if it has errors or holds none), in the order of the paths, and everything found wrong.

    They are checked as policies of `authority`; what they import counts as shared by the cluster.

    A folder stands for the `*.policy` files in it and below, sorted; `-` for standard input. `X_test.policy` adds its tests to the policy
    of `X.policy` beside it, and either brings the other along. Raises `UsageError` for a path that cannot be read.
    """
    loader = _Loader(catalogue=catalogue, authority=authority)
    for name in policy_files(paths):
        loader.add(name)
    return loader.policies(), loader.diagnostics


def policy_files(paths: Iterable[str | Path]) -> list[str]:
    """The names of the files that some paths stand for, each once; raises `UsageError` for a path that is not there."""
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
    """The policy files in a folder and below, sorted; raises `UsageError` if there are unexpectedly none, or on an unreadable folder."""

    def refuse(error: OSError) -> None:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}")

    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]  # .git, .venv: nothing of the user's own
        found.extend(Path(parent, name) for name in names if name.endswith(SUFFIX))
    if not found and not Path(folder, NONE_MEANT).exists():
        raise UsageError(f"{folder}: no *{SUFFIX} files in this folder")
    return sorted(str(path) for path in found if path.is_file())


@dataclass(slots=True, kw_only=True)
class _Loader:
    """Files as they are read, by name; None for one that holds no policy text."""

    catalogue: Catalogue
    authority: Authority = CLUSTER
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    files: dict[str, ast.File | None] = field(default_factory=dict)
    wanted: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        """Reads a file, and the file of its tests or of what it tests."""
        partner = paired_file(name)
        if name in self.files:
            return
        self.read(name)
        if partner is not None and Path(partner).is_file() and partner not in self.files:
            self.read(partner)
            if name.endswith(TEST_SUFFIX):
                self.wanted.append(partner)
        self.wanted.append(name)

    def read(self, name: str) -> ast.File | None:
        """The syntax tree of a file; raises `UsageError` when it cannot be read."""
        if name not in self.files:
            self.files[name] = None  # also for one whose reading fails
            standard = name == STDIN
            source = read_stream(sys.stdin.buffer, "<stdin>", self.diagnostics) if standard else read_source(name, self.diagnostics)
            self.files[name] = parse(source, self.diagnostics) if source is not None else None
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
        """A file together with the tests kept beside it."""
        beside = paired_file(name)
        return with_tests(file, self.files.get(beside) if beside is not None and not name.endswith(TEST_SUFFIX) else None)

    def _tests_belong(self, name: str, file: ast.File) -> None:
        """Reports tests that belong to no policy."""
        tested = self.files.get(paired_file(name) or "") if name.endswith(TEST_SUFFIX) else None
        if tested is not None and tested.policy is not None:
            return
        beside = f"`{paired_file(name)}`" if name.endswith(TEST_SUFFIX) else f"a file named `X{TEST_SUFFIX}` beside `X{SUFFIX}`"
        title = file.tests[0].title.span
        help_ = (
            f"they are tests of the policy in {beside}" if name.endswith(TEST_SUFFIX) else f"put them beside the rules, or into {beside}"
        )
        self.diagnostics.error(Code.P604, "these tests belong to no policy", title, label="the first of them", help=help_)

    def checked(self, file: ast.File) -> typed.Policy | None:
        """The typed policy of a file with its imports."""
        files = imported(file, self._fetch, self.diagnostics, _IMPORT_HELP)
        return check(file, self.catalogue, self.diagnostics, dict(files), self.authority)

    def _fetch(self, key: str) -> ast.File | str:
        if not key.endswith(SUFFIX):  # a diagnostic quotes its text, which must not be a secret
            return f"only {SUFFIX} files can be imported"
        try:
            return self.read(key) or f"{key} holds no declarations"
        except UsageError as error:
            return str(error).rpartition(": ")[2].lower()

    def _unique_names(self) -> None:
        """Reports policies that share a name."""
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

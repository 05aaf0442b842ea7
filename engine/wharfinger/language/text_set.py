"""Texts that belong together but are no files of this machine: the keys of a ConfigMap, what a folder held at one moment, a resource.

They are checked one by one, so that a caller with many texts can work in small steps and check only what has changed. Imports reach
nothing outside of the set.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from wharfinger.language.check import check
from wharfinger.language.check.conflicts import report_conflicts
from wharfinger.language.check.lints import allowed_by
from wharfinger.language.files import SUFFIX, TEST_SUFFIX, decode, imported, only_tests, paired_file, with_tests
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.codes import Code
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.report.source import Source
from wharfinger.language.report.wording import listed
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.language.semantics.catalogue import Catalogue
from wharfinger.language.syntax import ast


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """The outcome of checking a text. `policy` is None if it has errors, or is a library or a file of tests.

    `title` is the name that its `policy` line gives, also where the rest has errors; None if none can be read. `without_policy` is
    true for a library or a file of tests. `needs` are the names of the other texts that the outcome depends on, existing or not.
    """

    policy: typed.Policy | None
    title: str | None
    without_policy: bool
    needs: frozenset[str]


@dataclass(slots=True, kw_only=True)
class TextSet:
    """Texts by name; names are paths as far as imports are concerned. Without `imports` each text stands alone.

    One that stands alone can import no more than the libraries that its authority has.
    """

    texts: Mapping[str, bytes]
    imports: bool = True
    _parsed: dict[str, tuple[ast.File | None, Diagnostics]] = field(default_factory=dict)

    def check(self, name: str, catalogue: Catalogue, diagnostics: Diagnostics, authority: Authority = CLUSTER) -> CheckedText:
        """The policy of one text with its tests and imports, as that of `authority`; whatever is wrong goes to `diagnostics`."""
        file = self._read(name, diagnostics)
        beside = paired_file(name)
        needs = {beside} if beside is not None else set()
        if file is None:
            return CheckedText(policy=None, title=None, without_policy=False, needs=frozenset(needs))
        if only_tests(file):
            self._belongs(name, file, diagnostics)
            return CheckedText(policy=None, title=None, without_policy=True, needs=frozenset(needs))
        file = self._with_tests(name, file, diagnostics)
        files = imported(file, partial(self._fetch, needs, diagnostics, authority), diagnostics, _IMPORT_HELP)
        policy = check(file, catalogue, diagnostics, dict(files), authority)
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
        beside = paired_file(name)
        if beside is None or beside not in self.texts or name.endswith(TEST_SUFFIX):
            return file
        return with_tests(file, self._read(beside, diagnostics))

    def _belongs(self, name: str, file: ast.File, diagnostics: Diagnostics) -> None:
        tested = paired_file(name) if name.endswith(TEST_SUFFIX) else None
        if tested not in self.texts:
            title = file.tests[0].title.span
            help_ = f"put them beside the rules, or into a file named `X{TEST_SUFFIX}` beside `X{SUFFIX}`"
            diagnostics.error(Code.P604, "these tests belong to no policy", title, label="the first of them", help=help_)

    def _fetch(self, needs: set[str], diagnostics: Diagnostics, authority: Authority, key: str) -> ast.File | str:
        if not self.imports and authority.libraries:
            shared = authority.library(posixpath.basename(key))
            if shared is None:
                return f"policies of a namespace import only {listed(name for name, _ in authority.libraries)}"
            return parse(Source(name=key, text=shared), diagnostics) or "it holds no declarations"
        needs.add(key)
        if not self.imports:
            return "a policy that stands alone has nothing to import"
        if key not in self.texts:
            return f"there is no such {SUFFIX} file where this one comes from"
        return self._read(key, diagnostics) or "it holds no declarations"


_IMPORT_HELP = "only files of the same folder or ConfigMap can be imported"

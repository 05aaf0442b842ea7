r"""Case files of diagnostics: a policy with a mistake, the expected findings, and the corrected policy.

    === file shared.policy        (any number of other files, beside the policy)
    === authority NAMESPACE [Off]   (whose policy it is; the cluster's without this)
    === broken
    === found                     (one line per finding: CODE line:column message)
    === mended

`tests/cases/diagnostics/<CODE>.case` is the example on the page of that code, where the whole output is shown; `<CODE>-<word>.case` are
further ones. In policies `«120 × (»` means 120 parentheses (in it `#` is the number of the repetition and `\n` a new line), and `«bytes ff
fe»` for bytes that no text has.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.language.load import load_policies
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies

FOLDER = Path(__file__).parents[2] / "cases" / "diagnostics"
SECTION = re.compile(r"^=== (.+)\n", re.MULTILINE)
REPEAT = re.compile(r"«(\d+) × ([^»]*)»")
BYTES = re.compile(r"«bytes ([0-9a-f ]*)»")
NAME = "example.policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case file; `files` are the other files by name."""

    path: Path
    broken: str
    found: tuple[str, ...]
    mended: str
    files: dict[str, str]
    authority: Authority = CLUSTER

    @property
    def code(self) -> str:
        """The code that the case is about."""
        return self.path.stem.partition("-")[0]

    def __str__(self) -> str:
        return self.path.stem


def read(path: Path) -> Case:
    """The case in a file."""
    _, *parts = SECTION.split(path.read_text(encoding="utf-8"))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert {"broken", "found", "mended"} <= sections.keys(), f"{path} lacks a section"
    files = {name.removeprefix("file "): text for name, text in sections.items() if name.startswith("file ")}
    found = tuple(line for line in sections["found"].splitlines() if line)
    return Case(path=path, broken=sections["broken"], found=found, mended=sections["mended"], files=files, authority=_authority(sections))


def _authority(sections: Iterable[str]) -> Authority:
    named = next((name.split()[1:] for name in sections if name.startswith("authority ")), None)
    if named is None:
        return CLUSTER
    return Authority(named[0], TenantPolicies(named[1]) if named[1:] else TenantPolicies.RESTRICTED)


def cases() -> list[Case]:
    """All case files, in order."""
    return [read(path) for path in sorted(FOLDER.glob("*.case"))]


def diagnose(folder: Path, text: str, files: dict[str, str], authority: Authority = CLUSTER) -> Diagnostics:
    """The findings for a policy text with other files in its folder; the whole folder is loaded where there are tests among them."""
    for name, policy in {**files, NAME: text}.items():
        (folder / name).write_bytes(content(policy))
    others = [name for name in files if not name.startswith("shared")]
    with contextlib.chdir(folder):
        policies, diagnostics = load_policies([*others, NAME], CATALOGUE, authority)
    for policy in policies:
        if policy is not None and not diagnostics.has_errors:
            cost.report(policy, diagnostics)
    return diagnostics


def allowed(authority: Authority) -> Authority:
    """The authority of a corrected policy: the cluster's where policies of namespaces are off."""
    return CLUSTER if authority.allowed is TenantPolicies.OFF else authority


def content(policy: str) -> bytes:
    """The bytes of a policy of a case."""
    pieces = BYTES.split(REPEAT.sub(_repeated, policy))
    return b"".join(bytes.fromhex(piece) if index % 2 else piece.encode() for index, piece in enumerate(pieces))


def _repeated(found: re.Match[str]) -> str:
    pattern = found.group(2).replace("\\n", "\n")
    return "".join(pattern.replace("#", str(number)) for number in range(int(found.group(1))))


def lines(diagnostics: Diagnostics) -> tuple[str, ...]:
    """Findings as the lines of a `found` section."""
    return tuple(f"{d.code.name} {_place(d.span.source.name)}{d.span.line}:{d.span.column} {d.message}" for d in diagnostics)


def _place(source: str) -> str:
    return "" if source == NAME else f"{source}:"

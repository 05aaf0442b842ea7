"""Findings as pipelines read them: SARIF 2.1.0, and the workflow commands of GitHub Actions.

`wharf check` and `wharf test` know different things; both become a `Finding` here: a rule, a sentence and a place. Places are relative to
the root of the repository (`$GITHUB_WORKSPACE`, else the current folder), because a pipeline shows them at the lines of a change.

    SARIF      https://docs.oasis-open.org/sarif/sarif/v2.1.0/
    commands   "Workflow commands for GitHub Actions" in GitHub's documentation
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

import wharfinger
from wharfinger.cli import streams
from wharfinger.errors import printable
from wharfinger.language.report.codes import Code, Severity
from wharfinger.language.report.diagnostics import Diagnostic, Label, Span

DOCUMENTATION = "WHARF_DOCS_URL"
"""The variable with the address of the site that `make site` builds; findings lead to its pages."""
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


class Rule(Struct, frozen=True, kw_only=True):
    """The rule that a finding violates: its stable name, what it means, and its page in docs/ without the suffix."""

    name: str
    title: str
    explanation: str
    page: str
    severity: Severity = Severity.ERROR


class Finding(Struct, frozen=True, kw_only=True):
    """One finding: `others` are further places with a few words each, `suggestion` is text that fixes it in place of the span."""

    rule: Rule
    message: str
    span: Span | None = None
    details: tuple[str, ...] = ()
    others: tuple[Label, ...] = ()
    suggestion: str | None = None


CODES: Mapping[Code, Rule] = {
    code: Rule(name=code.name, title=code.title, explanation=code.value.explanation, page=f"errors/{code.name}", severity=code.severity)
    for code in Code
}
ARGUMENT = Rule(
    name="plugin-argument",
    title="argument that a plugin refuses",
    explanation="The arguments in `base kubernetes` are those of the plugin in a KubeSchedulerConfiguration.",
    page="operating/configuration",
)
FAILED = Rule(
    name="test-failed",
    title="test that fails",
    explanation="An `expect` of a test is not true. The details show the values that led to it.",
    page="trying/testing",
)
UNTESTED = Rule(
    name="policy-without-tests",
    title="policy without tests",
    explanation="A policy that no test has tried is a failure of `wharf test`.",
    page="trying/testing",
)
COVERAGE = Rule(
    name="coverage-too-low",
    title="too little covered",
    explanation="The tests cover less of the rules than `--fail-under` requires.",
    page="trying/testing",
)


def of_diagnostics(diagnostics: Iterable[Diagnostic]) -> Iterator[Finding]:
    """The findings of the language."""
    for each in diagnostics:
        details = tuple(part for part in (each.label, f"help: {each.help}" if each.help else "") if part)
        yield Finding(
            rule=CODES[each.code], message=each.message, span=each.span, details=details, others=each.others, suggestion=each.suggestion
        )


# ── GitHub ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def github(findings: Iterable[Finding]) -> str:
    """A workflow command for each finding, which GitHub shows at the line of a change; "" without findings."""
    return "".join(f"{_command(finding)}\n" for finding in findings)


def _command(finding: Finding) -> str:
    properties = {"title": f"{finding.rule.name}: {finding.rule.title}"}
    if finding.span is not None:
        properties = _position(finding.span) | properties
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    lines = (finding.message, *finding.details, *(f"{label.span}: {label.text}" for label in finding.others), _page(finding.rule))
    return f"::{finding.rule.severity.value} {written}::{_message(chr(10).join(lines))}"


def _page(rule: Rule) -> str:
    """The address of the page about a rule; without a site, a file of the project."""
    site = _site()
    return f"{site}/{rule.page}.html" if site else f"docs/{rule.page}.md"


def _site() -> str:
    return os.environ.get(DOCUMENTATION, "").rstrip("/")


def _position(span: Span) -> dict[str, str]:
    """The place as properties of a command. Columns are left out for several lines, where GitHub refuses them."""
    (line, column), (end_line, end_column) = span.position(span.start), span.position(span.end)
    place = {"file": str(_place(span.source.name)), "line": str(line), "endLine": str(end_line)}
    return place | {"col": str(column), "endColumn": str(max(end_column - 1, column))} if line == end_line else place


def _message(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


# ── SARIF ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sarif(findings: Iterable[Finding]) -> str:
    """A SARIF log of one run; it has the violated rules, or an empty list of results."""
    found = list(findings)
    rules = list(dict.fromkeys(finding.rule for finding in found))
    driver = {
        "name": "wharf",
        "semanticVersion": wharfinger.__version__,
        **({"informationUri": f"{site}/"} if (site := _site()) else {}),
        "rules": [_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules) for finding in found],
    }
    return streams.json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation},
        **({"helpUri": _page(rule)} if _site() else {}),
        "help": {"text": rule.explanation, "markdown": f"{rule.explanation}\n\n{_page(rule)}"},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _result(finding: Finding, rules: Sequence[Rule]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule.name,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.rule.severity.value,
        "message": {"text": "\n".join((finding.message, *finding.details))},
    }
    if finding.span is not None:
        result["locations"] = [_location(finding.span)]
    if finding.others:
        result["relatedLocations"] = [_location(label.span) | {"message": {"text": label.text}} for label in finding.others]
    if finding.span is not None and finding.span.source.text and finding.suggestion is not None:
        replaced = {"deletedRegion": _region(finding.span), "insertedContent": {"text": finding.suggestion}}
        change = {"artifactLocation": {"uri": _uri(finding.span.source.name)}, "replacements": [replaced]}
        result["fixes"] = [{"description": {"text": f"write `{finding.suggestion}`"}, "artifactChanges": [change]}]
    return result


def _location(span: Span) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(span.source.name)}}
    if span.source.text:
        physical["region"] = _region(span)
    return {"physicalLocation": physical}


def _region(span: Span) -> dict[str, int]:
    (line, column), (end_line, end_column) = span.position(span.start), span.position(span.end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _uri(name: str) -> str:
    place = _place(name)
    return place.as_uri() if place.is_absolute() else quote(place.as_posix())


def _place(name: str) -> Path:
    """The path of a file relative to the root of the repository; as it is where the file is outside."""
    root, path = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()), Path(os.path.abspath(name))  # noqa: PTH100 — links stay links
    return path.relative_to(root) if path.is_relative_to(root) else Path(name)

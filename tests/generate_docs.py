"""Writes the pages that are made from the code: `docs/errors/` from the codes and their cases, the tables of
`grammar/LANGUAGE.md`, `docs/operating/metrics-and-logs.md` and `docs/operating/running.md`, the definitions of custom resources in
`deploy/crds/`, the dashboard and the alert rules in `deploy/components/`, the schema of the chart's values in `deploy/chart/`, and the
list of the fields of manifests that Kubernetes knows.

`python -m tests.generate_docs` writes them; tests compare them with what this module would write.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests import chart_schema, editor_files, json_schemas, manifest_fields, operations_tables, reference_tables, settings_table
from tests.monitoring import alerts, dashboard
from tests.unit.language import diagnostic_case
from wharfinger.crd import definition
from wharfinger.language.report.codes import Code
from wharfinger.language.report.render import as_text
from wharfinger.language.semantics.authority import TenantPolicies

ROOT = Path(__file__).parent.parent
ERRORS = ROOT / "docs" / "errors"
LANGUAGE = ROOT / "grammar" / "LANGUAGE.md"
METRICS_AND_LOGS = ROOT / "docs" / "operating" / "metrics-and-logs.md"
RUNNING = ROOT / "docs" / "operating" / "running.md"
CRDS = ROOT / "deploy" / "crds"
MANIFEST_FIELDS = ROOT / "engine" / "wharfinger" / "model" / "reading" / "manifest_fields.json"
DASHBOARD = ROOT / "deploy" / "components" / "dashboards" / "wharfinger.json"
ALERTS = ROOT / "deploy" / "components" / "alerts"
CHART_SCHEMA = ROOT / "deploy" / "chart" / "values.schema.json"
FAMILIES = {
    "P0": "Files and limits",
    "P1": "Syntax",
    "P2": "Types, units and shapes",
    "P3": "Names",
    "P4": "Missing values",
    "P5": "Scores",
    "P6": "Structure",
    "P7": "Tests",
    "P8": "Whose policy it is",
    "L": "Lints",
}


def pages() -> dict[Path, Callable[[], str]]:
    """Every generated page with what makes its text."""
    errors = {ERRORS / f"{code.name}.md": partial(page, code) for code in Code}
    crds = {CRDS / f"{made.name}.yaml": made.text for made in definition.DEFINITIONS}
    seen = {
        DASHBOARD: dashboard.text,
        ALERTS / "rules.yaml": alerts.rules_text,
        ALERTS / "prometheus-rule.yaml": alerts.prometheus_rule_text,
    }
    return {
        LANGUAGE: language,
        METRICS_AND_LOGS: metrics_and_logs,
        RUNNING: running,
        MANIFEST_FIELDS: manifest_fields.text,
        editor_files.TEXTMATE: editor_files.textmate_text,
        editor_files.VIM: editor_files.vim_text,
        editor_files.WORDS: editor_files.words_text,
        **json_schemas.files(),
        CHART_SCHEMA: chart_schema.text,
        ERRORS / "README.md": index,
        **errors,
        **crds,
        **seen,
    }


def language() -> str:
    """The reference of the language with its tables written again."""
    return reference_tables.filled(LANGUAGE.read_text(encoding="utf-8"))


def metrics_and_logs() -> str:
    """The page of metrics and log lines with its tables written again."""
    return operations_tables.filled(METRICS_AND_LOGS.read_text(encoding="utf-8"))


def running() -> str:
    """The page about running with its table of settings written again."""
    return settings_table.filled(RUNNING.read_text(encoding="utf-8"))


def index() -> str:
    """The list of all codes."""
    lines = [
        "# Diagnostics",
        "",
        "Every finding has a stable code. Its page explains it, and shows a policy with the error and the corrected policy.",
    ]
    for prefix, family in FAMILIES.items():
        codes = [code for code in Code if code.name.startswith(prefix)]
        lines += ["", f"## {family}", "", "| code | what | severity |", "|---|---|---|"]
        lines += [f"| [{code.name}]({code.name}.md) | {code.title} | {code.severity.value} |" for code in codes]
    return "\n".join(lines) + "\n"


def page(code: Code) -> str:
    """The page of one code."""
    case = diagnostic_case.read(diagnostic_case.FOLDER / f"{code.name}.case")
    with tempfile.TemporaryDirectory() as folder:
        found = diagnostic_case.diagnose(Path(folder), case.broken, case.files, case.authority)
    printed = "\n".join(as_text(diagnostic) for diagnostic in found)
    lines = [f"# {code.name}: {code.title}", "", code.value.explanation, "", *_what_follows(code), "", "## Example", ""]
    if case.authority.namespace is not None:
        off = " while `tenantPolicies` is `Off`" if case.authority.allowed is TenantPolicies.OFF else ""
        lines += [f"As a policy of {case.authority}{off}:", ""]
    lines += [*_fenced("policy-error", case.broken), "", *_others(case), *_fenced("text", printed), "", "## Corrected", ""]
    if case.authority.allowed is TenantPolicies.OFF:
        lines += ["As a policy of the cluster:", ""]
    lines += _fenced("policy", case.mended)
    if "«" in case.broken + case.mended:
        lines += ["", "`«n × text»` stands for n repetitions of a text, `«bytes …»` for bytes."]
    return "\n".join(lines) + "\n"


def _what_follows(code: Code) -> list[str]:
    if code.severity.value == "error":
        return ["This is an error: the policy is not used until it is corrected."]
    return ["This is a warning: the policy is used."]


def _others(case: diagnostic_case.Case) -> Iterator[str]:
    for name, text in case.files.items():
        yield from (f"With `{name}` beside it:", "", *_fenced("policy", text), "")


def _fenced(language: str, text: str) -> list[str]:
    return [f"```{language}", text.removesuffix("\n"), "```"]


def main() -> None:
    """Write changed pages, and remove pages of codes that no longer exist."""
    wanted = pages()
    for stale in set(ERRORS.glob("*.md")) - set(wanted):
        stale.unlink()
    for path, make in wanted.items():
        text = make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()

"""The alerts have their sections in the runbook, and the dashboard queries existing series."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.generate_docs import ALERTS as FOLDER
from tests.generate_docs import DASHBOARD
from tests.monitoring import promql
from tests.monitoring.alerts import ALERTS, RUNBOOK
from wharfinger.telemetry.declarations import Kind, Metric

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"^## (\w+)\n\n(.+?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"\b((?:scheduler|wharfinger|rest_client|workqueue|leader_election)_\w+?)(_bucket|_sum|_count)?(?:\{([^}]*)\})")
LABEL = re.compile(r"(\w+)(?:=~|!=|!~|=)")
OF_PROMETHEUS = {"job", "instance"}
SHOWN_NOWHERE = {
    "POD_ATTEMPTS",
    "BUILD",
    "SIGNAL_SERIES",
    "SIGNAL_SUSPENSIONS",
    "WORKQUEUE_ADDS",
    "WORKQUEUE_RETRIES",
    "ADMISSION_REVIEWS",
    "EXPANDER_DURATION",
}


def panels():
    return [panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row"]


def expressions():
    return [target["expr"] for panel in panels() for target in panel["targets"]] + [alert.expr for alert in ALERTS]


def test_every_alert_has_its_section_and_no_section_is_about_none():
    sections = dict(SECTION.findall((ROOT / RUNBOOK).read_text("utf-8")))

    assert list(sections) == [alert.name for alert in ALERTS]
    assert all(len(text.split()) > 25 for text in sections.values())


def test_the_page_about_operations_lists_every_alert():
    table = (ROOT / "docs" / "operating" / "operations.md").read_text("utf-8")

    assert re.findall(r"^\| \[(\w+)\]\(runbook\.md#\w+\) \|", table, re.MULTILINE) == [alert.name for alert in ALERTS]


def test_rules_lead_to_their_sections():
    rules = yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8"))["groups"][0]["rules"]

    assert [rule["annotations"]["runbook"] for rule in rules] == [f"docs/operating/runbook.md#{alert.name.lower()}" for alert in ALERTS]
    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning", "info"}
    assert all(re.fullmatch(r"[1-9]\d*m", rule["for"]) for rule in rules)


def test_the_operator_is_given_the_same_rules():
    plain = yaml.safe_load((FOLDER / "rules.yaml").read_text("utf-8"))
    operator_s = yaml.safe_load((FOLDER / "prometheus-rule.yaml").read_text("utf-8"))

    assert operator_s["spec"] == plain
    assert operator_s["kind"] == "PrometheusRule"


def test_expressions_ask_for_metrics_and_labels_that_are_declared():
    declared = {metric.declaration.name: metric.declaration for metric in Metric}
    asked = [found for expr in expressions() for found in NAME.findall(expr)]
    assert len(asked) > 60
    for name, suffix, matchers in asked:
        labels = {*declared[name].labels, *OF_PROMETHEUS, *(["le"] if suffix == "_bucket" else [])}
        assert set(LABEL.findall(re.sub(r'"[^"]*"', '""', matchers))) <= labels, name
        assert bool(suffix) == (declared[name].kind is Kind.HISTOGRAM), name


def test_the_dashboard_shows_every_metric_but_a_few():
    shown = {name for expr in expressions() for name, _, _ in NAME.findall(expr + "{}")}
    assert {metric.name for metric in Metric if metric.declaration.name not in shown} <= SHOWN_NOWHERE


def test_legends_use_labels_that_their_expressions_keep():
    for panel in panels():
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) - {"le"}
            kept = {label for found in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in found.split(", ")} | {"instance"}
            assert wanted <= kept, (panel["title"], wanted - kept)


def test_panels_do_not_overlap():
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_misspelt_labels_are_refused():
    with pytest.raises(KeyError, match="has no label reslt; it has result, profile"):
        promql.series(Metric.ATTEMPTS, reslt="error")
    with pytest.raises(KeyError, match="has no label node"):
        promql.rate(Metric.ATTEMPTS, "", "node")
    with pytest.raises(KeyError):
        promql.series(Metric.ATTEMPTS, "_bucket")

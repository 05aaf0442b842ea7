"""The alert rules of `deploy/components/alerts`, each with its section of the runbook.

kube-scheduler and other components have metrics with the same names, so every rule selects processes of Wharfinger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.monitoring.promql import quantile, series
from wharfinger.telemetry.declarations import Metric

RUNBOOK = "docs/operating/runbook.md"
OURS = f"and on (job, instance) {series(Metric.BUILD)}"
NAMESPACE = "wharfinger-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule. `lasts` is how long the expression has to hold; `summary` may use labels and the value, as Prometheus' templates do."""

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str

    @property
    def anchor(self) -> str:
        """The anchor of its section of the runbook."""
        return self.name.lower()


def rate(metric: Metric, *by: str, over: str = "5m", **equal: str) -> str:
    """The growth of one of our counters per second, by job and more labels."""
    return f"sum by ({', '.join(('job', *by))}) (rate({series(metric, **equal)}[{over}]) {OURS})"


def total(metric: Metric, *by: str, **equal: str) -> str:
    """The sum of a gauge of Wharfinger, by job and more labels."""
    return f"sum by ({', '.join(('job', *by))}) ({series(metric, **equal)} {OURS})"


FAILING = f"{rate(Metric.ATTEMPTS, result='error')} / {rate(Metric.ATTEMPTS)}"
UNANSWERED = f"{rate(Metric.REQUESTS, code='<error>')} / {rate(Metric.REQUESTS)}"
SLOW = quantile(0.99, Metric.SLI_DURATION, "job", over="10m", attempts="1")
HELD = f"count by (job, policy, revision) ({series(Metric.POLICY_ACTIVE)})"

ALERTS = (
    Alert(
        name="WharfingerAbsent",
        expr=f"absent({series(Metric.BUILD)})",
        lasts="5m",
        severity="critical",
        summary="Prometheus scrapes no Wharfinger: none is running, or Prometheus cannot reach it.",
    ),
    Alert(
        name="WharfingerNoLeader",
        expr=f"{total(Metric.LEADER)} == 0",
        lasts="2m",
        severity="critical",
        summary="No replica of {{ $labels.job }} is the leader, so no pod is placed.",
    ),
    Alert(
        name="WharfingerNoAttempts",
        expr=f"{total(Metric.PENDING_PODS, queue='active')} > 0 and {rate(Metric.ATTEMPTS)} == 0",
        lasts="5m",
        severity="critical",
        summary="{{ $value }} pods are in the active queue, but there are no attempts to place them.",
    ),
    Alert(
        name="WharfingerAttemptsFail",
        expr=f"{FAILING} > 0.05",
        lasts="10m",
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the attempts end with an error.",
    ),
    Alert(
        name="WharfingerQueueGrows",
        expr=f"{total(Metric.PENDING_PODS, queue='active')} > 100",
        lasts="10m",
        severity="warning",
        summary="{{ $value }} pods are in the active queue: they arrive faster than they are placed.",
    ),
    Alert(
        name="WharfingerGroupsWait",
        expr=f"{total(Metric.WAITING_GROUPS, queue='unschedulable')} > 0",
        lasts="60m",
        severity="info",
        summary="{{ $value }} groups of pods have had no room for an hour.",
    ),
    Alert(
        name="WharfingerSlow",
        expr=f"{SLOW} > 5 and on (job) {series(Metric.BUILD)}",
        lasts="10m",
        severity="warning",
        summary="1 % of the pods placed at their first attempt take {{ $value | humanizeDuration }} or longer until they are bound.",
    ),
    Alert(
        name="WharfingerMissedEvents",
        expr=f"sum by (job) (increase({series(Metric.SCHEDULED_AFTER_FLUSH)}[1h]) {OURS}) > 0",
        lasts="5m",
        severity="info",
        summary="Pods were placed only by the periodic retry: an event for them was missed.",
    ),
    Alert(
        name="WharfingerPolicyRefused",
        expr=f"sum by (job, state) ({series(Metric.POLICY_STATE, state='~kept|refused')}) > 0",
        lasts="10m",
        severity="warning",
        summary="The last text of {{ $value }} policies was refused ({{ $labels.state }}).",
    ),
    Alert(
        name="WharfingerPolicySourceLost",
        expr=f"max by (job, source) ({series(Metric.POLICY_SOURCE_LOST)}) > 0",
        lasts="10m",
        severity="warning",
        summary="Policies cannot be read from {{ $labels.source }}; its policies stay in force.",
    ),
    Alert(
        name="WharfingerPoliciesDiffer",
        expr=f"{HELD} != on (job) group_left () count by (job) ({series(Metric.BUILD)})",
        lasts="15m",
        severity="warning",
        summary="Revision {{ $labels.revision }} of the policy {{ $labels.policy }} is in force on {{ $value }} replicas, but not on all.",
    ),
    Alert(
        name="WharfingerAdmissionFails",
        expr=f"sum by (job, result) (rate({series(Metric.ADMISSION_REVIEWS, result='~busy|late|forbidden|failed')}[10m])) > 0",
        lasts="10m",
        severity="warning",
        summary="The webhook gives no verdict on policies ({{ $labels.result }}).",
    ),
    Alert(
        name="WharfingerSignalSuspended",
        expr=f"max by (job, policy, metric) ({series(Metric.SIGNAL_SUSPENDED)}) > 0",
        lasts="5m",
        severity="warning",
        summary="Rules of {{ $labels.policy }} that read {{ $labels.metric }} are suspended: too few nodes have a fresh sample.",
    ),
    Alert(
        name="WharfingerSignalsFail",
        expr=f"sum by (job, server, kind) (rate({series(Metric.SIGNAL_FAILURES)}[10m])) > 0",
        lasts="15m",
        severity="warning",
        summary="Metrics cannot be read from {{ $labels.server }} ({{ $labels.kind }}).",
    ),
    Alert(
        name="WharfingerThrottled",
        expr=f"{rate(Metric.REQUESTS, code='429')} > 0",
        lasts="10m",
        severity="warning",
        summary="The API server throttles {{ $labels.job }} (429 Too Many Requests).",
    ),
    Alert(
        name="WharfingerUnanswered",
        expr=f"{UNANSWERED} > 0.05",
        lasts="5m",
        severity="critical",
        summary="{{ $value | humanizePercentage }} of the requests to the API server get no answer.",
    ),
    Alert(
        name="WharfingerWatchesBreak",
        expr=f"sum by (job, instance) (rate({series(Metric.ERRORS, place='watch')}[5m])) > 0",
        lasts="15m",
        severity="warning",
        summary="Watches of {{ $labels.instance }} break repeatedly, so its state of the cluster is late.",
    ),
    Alert(
        name="WharfingerReconcilesFail",
        expr=f"sum by (job, controller) (rate({series(Metric.RECONCILES, result='error')}[10m])) > 0",
        lasts="15m",
        severity="warning",
        summary="Reconciles of {{ $labels.controller }} fail.",
    ),
    Alert(
        name="WharfingerLogLinesLost",
        expr=f"sum by (job, instance) (increase({series(Metric.LOG_LINES_LEFT_OUT, reason='unread')}[10m])) > 0",
        lasts="5m",
        severity="info",
        summary="The log collector of {{ $labels.instance }} is too slow; log lines are dropped.",
    ),
)


def groups() -> list[dict[str, Any]]:
    """The rules in the one group that Prometheus evaluates together."""
    return [{"name": "wharfinger", "rules": list(_rules())}]


def _rules() -> Iterator[dict[str, Any]]:
    for alert in ALERTS:
        yield {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.summary, "runbook": f"{RUNBOOK}#{alert.anchor}"},
        }


def rules_text() -> str:
    """The rules as a file of Prometheus."""
    return _yaml("Alert rules for a Prometheus that reads files; prometheus-rule.yaml is the same for its operator.", {"groups": groups()})


def prometheus_rule_text() -> str:
    """The rules as an object of the Prometheus operator."""
    made = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "wharfinger", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "wharfinger"}},
        "spec": {"groups": groups()},
    }
    return _yaml("Alert rules for the Prometheus operator.", made)


def _yaml(about: str, made: Any) -> str:
    return f"# {about} Generated by `make docs`.\n" + yaml.safe_dump(made, sort_keys=False, width=1000, allow_unicode=True)

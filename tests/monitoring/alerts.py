"""The alert rules of `deploy/components/alerts`: what somebody should be told, and the section of the runbook that says what to do.

kube-scheduler and other components have metrics of the same names, so every rule is held to processes that are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.monitoring.promql import quantile, series
from wharfinger.telemetry.declarations import Metric

RUNBOOK = "docs/runbook.md"
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
        """Where its section of the runbook is."""
        return self.name.lower()


def rate(metric: Metric, *by: str, over: str = "5m", **equal: str) -> str:
    """How much a counter of ours grows per second, by job and more labels."""
    return f"sum by ({', '.join(('job', *by))}) (rate({series(metric, **equal)}[{over}]) {OURS})"


def total(metric: Metric, *by: str, **equal: str) -> str:
    """The sum of a gauge of ours, by job and more labels."""
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
        summary="No Wharfinger is being read: it does not run, or Prometheus does not find it.",
    ),
    Alert(
        name="WharfingerNoLeader",
        expr=f"{total(Metric.LEADER)} == 0",
        lasts="2m",
        severity="critical",
        summary="No replica of {{ $labels.job }} leads, so no pod is placed.",
    ),
    Alert(
        name="WharfingerStandsStill",
        expr=f"{total(Metric.PENDING_PODS, queue='active')} > 0 and {rate(Metric.ATTEMPTS)} == 0",
        lasts="5m",
        severity="critical",
        summary="{{ $value }} pods are ready to be placed, and none is tried.",
    ),
    Alert(
        name="WharfingerAttemptsFail",
        expr=f"{FAILING} > 0.05",
        lasts="10m",
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the attempts end for reasons that have nothing to do with the pods.",
    ),
    Alert(
        name="WharfingerQueueGrows",
        expr=f"{total(Metric.PENDING_PODS, queue='active')} > 100",
        lasts="10m",
        severity="warning",
        summary="{{ $value }} pods are ready and wait for their turn: they come faster than they are placed.",
    ),
    Alert(
        name="WharfingerSlow",
        expr=f"{SLOW} > 5 and on (job) {series(Metric.BUILD)}",
        lasts="10m",
        severity="warning",
        summary="One of a hundred pods that fit at once takes {{ $value | humanizeDuration }} and longer until it is bound.",
    ),
    Alert(
        name="WharfingerMissedEvents",
        expr=f"sum by (job) (increase({series(Metric.SCHEDULED_AFTER_FLUSH)}[1h]) {OURS}) > 0",
        lasts="5m",
        severity="info",
        summary="Pods waited for minutes although they would have fitted.",
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
        summary="Policies cannot be read from {{ $labels.source }}; those that hold go on.",
    ),
    Alert(
        name="WharfingerPoliciesDiffer",
        expr=f"{HELD} != on (job) group_left () count by (job) ({series(Metric.BUILD)})",
        lasts="15m",
        severity="warning",
        summary="Revision {{ $labels.revision }} of the policy {{ $labels.policy }} holds on {{ $value }} replicas, and not on all.",
    ),
    Alert(
        name="WharfingerAdmissionFails",
        expr=f"sum by (job, result) (rate({series(Metric.ADMISSION_REVIEWS, result='~busy|late|forbidden|failed')}[10m])) > 0",
        lasts="10m",
        severity="warning",
        summary="The webhook cannot judge policies ({{ $labels.result }}).",
    ),
    Alert(
        name="WharfingerSignalSuspended",
        expr=f"max by (job, policy, metric) ({series(Metric.SIGNAL_SUSPENDED)}) > 0",
        lasts="5m",
        severity="warning",
        summary="Rules of {{ $labels.policy }} that read {{ $labels.metric }} have no say: too few nodes have a fresh sample.",
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
        summary="The API server has {{ $labels.job }} wait (429 Too Many Requests).",
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
        summary="Watches of {{ $labels.instance }} break again and again, so its picture of the cluster lags.",
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
        summary="Whoever collects the logs of {{ $labels.instance }} cannot keep up.",
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

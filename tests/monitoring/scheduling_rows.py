"""Rows of the dashboard about pods: what is decided, how long that takes, what waits and why."""

from __future__ import annotations

from functools import partial

from tests.monitoring.panels import Panel, Row
from tests.monitoring.queries import LEADS, leading, mean, quantile, quantiles, rate, series
from wharfinger.telemetry.declarations import Metric


def overview() -> Row:
    """The row with the overview."""
    stat = partial(Panel, kind="stat", width=4, height=4)
    pending = leading(Metric.PENDING_PODS)
    return Row(
        title="At a glance",
        panels=[
            stat(
                title="Leaders",
                about="One replica places pods. 0: none does.",
                queries=[(f"sum({series(Metric.LEADER)})", "")],
                thresholds={"red": 2},
            ),
            stat(title="Pods placed per second", about="Bound pods.", queries=[(rate(Metric.ATTEMPTS, result="scheduled"), "")]),
            stat(title="Pods waiting", about="In whatever queue.", queries=[(pending, "")]),
            stat(
                title="P99 until bound",
                about="Of pods that were placed at their first attempt, from when they were ready.",
                queries=[(quantile(0.99, Metric.SLI_DURATION, attempts="1"), "")],
                unit="s",
            ),
            stat(
                title="Policies not as written",
                about="The last text of these was refused.",
                queries=[(f"sum({series(Metric.POLICY_STATE, state='~kept|refused')} and on (instance) {LEADS}) or vector(0)", "")],
                thresholds={"red": 1},
            ),
            stat(
                title="Signals without a say",
                about="Metrics of policies that too few nodes have a fresh sample of.",
                queries=[(f"{leading(Metric.SIGNAL_SUSPENDED)} or vector(0)", "")],
                thresholds={"red": 1},
            ),
            Panel(
                title="Attempts",
                about="Attempts per second by result. Errors have nothing to do with the pods.",
                queries=[(rate(Metric.ATTEMPTS, "", "result"), "{{result}}")],
                unit="ops",
                stacked=True,
                width=12,
            ),
            Panel(
                title="Attempts by profile",
                about="By schedulerName.",
                queries=[(rate(Metric.ATTEMPTS, "", "profile", "result"), "{{profile}} {{result}}")],
                unit="ops",
                width=12,
            ),
        ],
    )


def latency() -> Row:
    """The row about durations."""
    return Row(
        title="How long it takes",
        panels=[
            Panel(
                title="Attempts that placed a pod",
                about="How many took how long, from leaving the queue until bound: the darker, the more.",
                kind="heatmap",
                queries=[(rate(Metric.ATTEMPT_DURATION, "_bucket", "le", result="scheduled"), "")],
                unit="s",
                width=12,
            ),
            Panel(
                title="From ready to bound",
                about="Over all attempts of a pod; time behind scheduling gates does not count.",
                queries=quantiles(Metric.SLI_DURATION),
                unit="s",
                width=12,
            ),
            Panel(title="Attempt", about="Until bound.", queries=quantiles(Metric.ATTEMPT_DURATION, result="scheduled"), unit="s", width=6),
            Panel(
                title="Decision",
                about="Filtering, scoring and preemption.",
                queries=quantiles(Metric.ALGORITHM_DURATION),
                unit="s",
                width=6,
            ),
            Panel(
                title="By extension point",
                about="Mean time per attempt. Decisions are measured in about one of ten.",
                queries=[(mean(Metric.POINT_DURATION, "extension_point"), "{{extension_point}}")],
                unit="s",
                width=6,
            ),
            Panel(
                title="By plugin",
                about="Mean time of the slowest ten at their extension points.",
                queries=[(f"topk(10, {mean(Metric.PLUGIN_DURATION, 'plugin', 'extension_point')})", "{{plugin}} {{extension_point}}")],
                unit="s",
                width=6,
            ),
        ],
    )


def groups() -> Row:
    """Groups of pods."""
    return Row(
        title="Groups of pods",
        panels=[
            Panel(
                title="Groups that wait",
                about="By queue: gated ones wait for members, unschedulable ones for room.",
                queries=[(leading(Metric.WAITING_GROUPS, "queue"), "{{queue}}")],
                stacked=True,
                width=6,
            ),
            Panel(
                title="Attempts of groups",
                about="Per second by result.",
                queries=[(rate(Metric.GROUP_ATTEMPTS, "", "result"), "{{result}}")],
                unit="ops",
                width=6,
            ),
            Panel(
                title="Attempt of a group",
                about="Until its members are being bound, or it waits again.",
                queries=quantiles(Metric.GROUP_ATTEMPT_DURATION),
                unit="s",
                width=6,
            ),
            Panel(
                title="Search for a group",
                about="With the pauses in which other pods were placed.",
                queries=quantiles(Metric.GROUP_ALGORITHM_DURATION),
                unit="s",
                width=6,
            ),
        ],
    )


def queues() -> Row:
    """The row about the queues."""
    return Row(
        title="What waits",
        panels=[
            Panel(title="Queues", about="Pods by queue.", queries=[(leading(Metric.PENDING_PODS, "queue"), "{{queue}}")], stacked=True),
            Panel(
                title="Unschedulable by what rejected them",
                about="A pod counts under every plugin and rule that rejected nodes for it.",
                queries=[(f"topk(10, {leading(Metric.UNSCHEDULABLE_PODS, 'plugin')})", "{{plugin}}")],
            ),
            Panel(
                title="What brings pods into a queue",
                about="Pods per second by event and queue.",
                queries=[(rate(Metric.INCOMING_PODS, "", "queue", "event"), "{{event}} → {{queue}}")],
                unit="ops",
            ),
            Panel(
                title="Under way", about="Bindings and status writes.", queries=[(leading(Metric.UNDER_WAY, "operation"), "{{operation}}")]
            ),
            Panel(
                title="Events behind",
                about="Age of the oldest event of pods that is not written yet.",
                queries=[(leading(Metric.EVENT_AGE), "age")],
                unit="s",
            ),
            Panel(
                title="Events left out",
                about="Never written: too many waited, or they were refused.",
                queries=[(rate(Metric.EVENTS_LEFT_OUT), "events")],
            ),
            Panel(title="The cluster", about="As it is known.", queries=[(leading(Metric.CACHE_SIZE, "type"), "{{type}}")]),
            Panel(
                title="Missed hints",
                about="Pods tried again only because they had waited for minutes, and those that were placed then: an event was missed.",
                queries=[(rate(Metric.FLUSHED), "tried"), (rate(Metric.SCHEDULED_AFTER_FLUSH), "placed")],
                unit="ops",
            ),
        ],
    )


def rules() -> Row:
    """The row about the rules of policies."""
    return Row(
        title="Rules of policies",
        panels=[
            Panel(
                title="Time by rule",
                about="Seconds of CPU per second.",
                queries=[(rate(Metric.RULE_SECONDS, "", "policy", "rule"), "{{policy}}/{{rule}}")],
                unit="percentunit",
                stacked=True,
            ),
            Panel(
                title="Rejections by rule",
                about="Nodes that evaluations of a filter have rejected, per second.",
                queries=[(rate(Metric.RULE_REJECTIONS, "", "policy", "rule"), "{{policy}}/{{rule}}")],
                unit="ops",
            ),
            Panel(
                title="Evaluations by rule",
                about="Nodes per second. What is remembered from earlier decisions is none.",
                queries=[(rate(Metric.RULE_EVALUATIONS, "", "policy", "rule"), "{{policy}}/{{rule}}")],
                unit="ops",
            ),
        ],
    )


def preemption() -> Row:
    """The row about preemption."""
    return Row(
        title="Preemption",
        panels=[
            Panel(title="Preemptions", about="Per second.", queries=[(rate(Metric.PREEMPTION_ATTEMPTS), "preemptions")], unit="ops"),
            Panel(title="Victims", about="Mean per preemption.", queries=[(mean(Metric.PREEMPTION_VICTIMS), "victims")]),
            Panel(
                title="Waiting for Permit plugins",
                about="P99 by result.",
                queries=[(quantile(0.99, Metric.PERMIT_WAIT, "result"), "{{result}}")],
                unit="s",
            ),
        ],
    )

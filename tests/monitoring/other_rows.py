"""Rows of the dashboard about the inputs of decisions: policies, signals, custom resources, the API server, the processes."""

from __future__ import annotations

from tests.monitoring.panels import Panel, Row
from tests.monitoring.queries import JOB, leading, quantile, quantiles, rate, series
from wharfinger.telemetry.declarations import Metric


def policies() -> Row:
    """The policies that are in force."""
    compared = [rate(Metric.SHADOW_DECISIONS, "", "policy", result=result) for result in ("disagree", "~agree|disagree")]
    since = f"time() - max by (policy) ({series(Metric.POLICY_LAST_SUCCESS)})"
    return Row(
        title="Policies",
        panels=[
            Panel(
                title="Policies by state",
                about="kept and refused want a look.",
                queries=[(leading(Metric.POLICY_STATE, "state"), "{{state}}")],
            ),
            Panel(
                title="Revisions",
                about="What decides, on how many replicas: two revisions of a policy for long mean that replicas read different sources.",
                kind="table",
                queries=[(f"count by (policy, revision) ({series(Metric.POLICY_ACTIVE)})", "")],
            ),
            Panel(
                title="Reloads",
                about="New texts by what came of them, per hour.",
                queries=[(f"sum by (result) (increase({series(Metric.POLICY_RELOADS)}[1h]))", "{{result}}")],
            ),
            Panel(
                title="Suspensions",
                about="Policies that took too much of decisions, per hour; pods that they govern wait.",
                queries=[(f"sum by (policy) (increase({series(Metric.POLICY_SUSPENSIONS)}[1h]))", "{{policy}}")],
            ),
            Panel(title="Age", about="Since the text that holds was accepted.", queries=[(since, "{{policy}}")], unit="s"),
            Panel(
                title="Sources that cannot be read",
                about="1 while a source is lost.",
                queries=[(f"max by (source) ({series(Metric.POLICY_SOURCE_LOST)})", "{{source}}")],
            ),
            Panel(
                title="Shadows that disagree",
                about="Part of the decisions that a shadow policy would have made otherwise.",
                queries=[(" / ".join(compared), "{{policy}}")],
                unit="percentunit",
            ),
        ],
    )


def signals() -> Row:
    """Metrics that policies read."""
    named = "{{policy}}/{{metric}}"
    return Row(
        title="Signals",
        panels=[
            Panel(
                title="Age of the newest sample",
                about="Per metric of a policy.",
                queries=[(f"max by (policy, metric) ({series(Metric.SIGNAL_AGE)} < +Inf)", named)],
                unit="s",
                width=6,
            ),
            Panel(
                title="Coverage",
                about="Part of the nodes with a fresh sample.",
                queries=[(f"min by (policy, metric) ({series(Metric.SIGNAL_COVERAGE)})", named)],
                unit="percentunit",
                width=6,
            ),
            Panel(
                title="Refreshes that brought nothing",
                about="Per second, by server and kind.",
                queries=[(rate(Metric.SIGNAL_FAILURES, "", "server", "kind"), "{{server}} {{kind}}")],
                unit="ops",
                width=6,
            ),
            Panel(
                title="Time of a refresh",
                about="P99 by server, until the samples are published.",
                queries=[(quantile(0.99, Metric.SIGNAL_REFRESH_DURATION, "server"), "{{server}}")],
                unit="s",
                width=6,
            ),
        ],
    )


def reconciling() -> Row:
    """Custom resources."""
    return Row(
        title="Custom resources",
        panels=[
            Panel(
                title="Waiting", about="Objects, by controller.", queries=[(leading(Metric.WORKQUEUE_DEPTH, "name"), "{{name}}")], width=6
            ),
            Panel(
                title="Time in line",
                about="P99 by controller.",
                queries=[(quantile(0.99, Metric.WORKQUEUE_WAIT, "name"), "{{name}}")],
                unit="s",
                width=6,
            ),
            Panel(
                title="Reconciles",
                about="Per second by controller and result.",
                queries=[(rate(Metric.RECONCILES, "", "controller", "result"), "{{controller}} {{result}}")],
                unit="ops",
                width=6,
            ),
            Panel(
                title="Time of a reconcile",
                about="P99 by controller.",
                queries=[(quantile(0.99, Metric.RECONCILE_DURATION, "controller"), "{{controller}}")],
                unit="s",
                width=6,
            ),
        ],
    )


def server() -> Row:
    """The API server, as we meet it."""
    return Row(
        title="API server",
        panels=[
            Panel(
                title="Requests",
                about="Per second by method and status code.",
                queries=[(rate(Metric.REQUESTS, "", "method", "code"), "{{method}} {{code}}")],
                unit="reqps",
                stacked=True,
                width=6,
            ),
            Panel(
                title="Time of requests",
                about="P99 by verb, without watches.",
                queries=[(quantile(0.99, Metric.REQUEST_DURATION, "verb"), "{{verb}}")],
                unit="s",
                width=6,
            ),
            Panel(
                title="Throttled, and not answered",
                about="429 Too Many Requests, and requests without an answer, per second.",
                queries=[(rate(Metric.REQUESTS, "", "code", code="~429|<error>"), "{{code}}")],
                unit="reqps",
                width=6,
            ),
            Panel(
                title="Steps of the event loop",
                about="How long one step kept everything else waiting, and the longest lately; 50 ms are meant to be the most.",
                queries=[
                    *quantiles(Metric.LOOP_STEPS),
                    (f"max by (instance) ({series(Metric.LOOP_LONGEST_STEP)})", "longest {{instance}}"),
                ],
                unit="s",
                width=6,
            ),
            Panel(
                title="Faults of plugins",
                about="Methods that raised, or answered against their contract, per second.",
                queries=[(rate(Metric.PLUGIN_FAULTS, "", "plugin", "method"), "{{plugin}} {{method}}")],
                unit="ops",
                width=6,
            ),
            Panel(
                title="Errors",
                about="That the process goes on after, per second, by place.",
                queries=[(rate(Metric.ERRORS, "", "place"), "{{place}}")],
                unit="ops",
                width=6,
            ),
        ],
    )


def process() -> Row:
    """The processes."""
    return Row(
        title="Processes",
        panels=[
            Panel(
                title="CPU",
                about="Cores by replica.",
                queries=[(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}")],
                width=6,
            ),
            Panel(
                title="Memory",
                about="Resident, by replica.",
                queries=[(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}")],
                unit="bytes",
                width=6,
            ),
            Panel(
                title="Changes of the cluster",
                about="Taken in per second, by replica.",
                queries=[(f"rate({series(Metric.STATE_REVISION)}[$__rate_interval])", "{{instance}}")],
                unit="ops",
                width=6,
            ),
            Panel(
                title="Log lines left out",
                about="Per second, by reason.",
                queries=[(rate(Metric.LOG_LINES_LEFT_OUT, "", "reason"), "{{reason}}")],
                unit="ops",
                width=6,
            ),
        ],
    )

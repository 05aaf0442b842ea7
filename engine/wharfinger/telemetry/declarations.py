"""Every metric of the process, declared once.

Where a metric of kube-scheduler 1.36 (pkg/scheduler/metrics/metrics.go) or client-go (component-base/metrics/prometheus) means the same, it
has that name, those labels and those buckets, so that dashboards and alerts made for kube-scheduler work here too. What is our own begins
with `wharfinger_`. Labels never hold names of pods or nodes: the number of series depends on profiles, plugins and policies alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A metric. One that is `read` is computed at scrape time."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    read: bool = False


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket boundaries, each `factor` times the one before."""
    return tuple(first * factor**power for power in range(count))


ATTEMPT_SECONDS = exponential(0.001, 2, 15)
POINT_SECONDS = exponential(0.0001, 2, 12)
PLUGIN_SECONDS = exponential(0.00001, 1.5, 20)
LOOP_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


def _counter(name: str, text: str, *labels: str, read: bool = False) -> Declaration:
    return Declaration(name=name, kind=Kind.COUNTER, help=text, labels=labels, read=read)


def _gauge(name: str, text: str, *labels: str) -> Declaration:
    return Declaration(name=name, kind=Kind.GAUGE, help=text, labels=labels, read=True)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Declaration:
    return Declaration(name=name, kind=Kind.HISTOGRAM, help=text, labels=labels, buckets=buckets)


class Metric(Enum):
    """The metrics."""

    ATTEMPTS = _counter(
        "scheduler_schedule_attempts_total",
        "Attempts to place a pod by result: 'scheduled' once it is bound, 'unschedulable' if no node fits, 'error' if something went wrong "
        "that has nothing to do with the pod.",
        "result",
        "profile",
    )
    ATTEMPT_DURATION = _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "Time of an attempt, from the moment the pod leaves the queue until it is bound or waits again.",
        ATTEMPT_SECONDS,
        "result",
        "profile",
    )
    ALGORITHM_DURATION = _histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Time of the decision alone: filtering, scoring and, where no node fits, looking for pods to preempt.",
        ATTEMPT_SECONDS,
    )
    SLI_DURATION = _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "Time from the moment a pod first became ready to be tried until it was bound, over all its attempts; time behind a gate does not "
        "count. 'attempts' is 15+ from fifteen on.",
        exponential(0.01, 2, 20),
        "attempts",
    )
    POD_ATTEMPTS = _histogram("scheduler_pod_scheduling_attempts", "Attempts it took to place a pod.", exponential(1, 2, 5))
    PENDING_PODS = _gauge(
        "scheduler_pending_pods",
        "Pods that wait, by queue: 'active' are tried next, 'backoff' in a moment, 'unschedulable' when an event may help them, 'gated' "
        "when their gates are gone.",
        "queue",
    )
    UNSCHEDULABLE_PODS = _gauge(
        "scheduler_unschedulable_pods",
        "Unschedulable pods by the plugin or policy rule that rejected nodes for them; a pod counts under each of them.",
        "plugin",
        "profile",
    )
    INCOMING_PODS = _counter(
        "scheduler_queue_incoming_pods_total",
        "Pods that entered a queue, by queue and by the event that brought them there.",
        "queue",
        "event",
    )
    POINT_DURATION = _histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "Time of all plugins of an extension point in one attempt. Score includes PreScore. PreFilter, Filter, Score and PostFilter are "
        "measured in about one of ten decisions, PreFilter only in those of them that start from scratch: the others keep its answer.",
        POINT_SECONDS,
        "extension_point",
        "status",
        "profile",
    )
    PLUGIN_DURATION = _histogram(
        "scheduler_plugin_execution_duration_seconds",
        "Time of one plugin at an extension point in one attempt, in about one of ten decisions. After a placement it is asked about the "
        "changed nodes alone. Rules of policies have wharfinger_policy_rule_seconds_total instead.",
        PLUGIN_SECONDS,
        "plugin",
        "extension_point",
        "status",
    )
    PERMIT_WAIT = _histogram(
        "scheduler_permit_wait_duration_seconds", "Time that placements waited for Permit plugins.", ATTEMPT_SECONDS, "result"
    )
    PREEMPTION_ATTEMPTS = _counter("scheduler_preemption_attempts_total", "Times a node was nominated and pods were chosen to leave it.")
    PREEMPTION_VICTIMS = _histogram("scheduler_preemption_victims", "Pods that have to leave for one preemption.", exponential(1, 2, 7))
    SCHEDULED_AFTER_FLUSH = _counter(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods that were placed when they were tried again without a reason, only because they had waited for so long: an event that helped "
        "them was missed.",
    )
    CACHE_SIZE = _gauge("scheduler_cache_size", "Nodes, pods on nodes, and pods assumed on nodes but not seen bound yet.", "type")
    UNDER_WAY = _gauge(
        "scheduler_goroutines", "Work under way by what it is: 'binding' pods, 'status' writes, both waiting and sent.", "operation"
    )
    LEADER = _gauge("leader_election_master_status", "1 if this process holds the lease, 0 if it stands by.", "name")
    REQUESTS = _counter(
        "rest_client_requests_total",
        "Requests to the API server by status code ('<error>' where none came), method and host.",
        "code",
        "method",
        "host",
    )
    REQUEST_DURATION = _histogram(
        "rest_client_request_duration_seconds",
        "Time of requests to the API server, without watches.",
        REQUEST_SECONDS,
        "verb",
        "host",
    )
    EVENT_AGE = _gauge("wharfinger_event_age_seconds", "Seconds that the oldest event not written yet has waited; 0 when none waits.")
    EVENTS_LEFT_OUT = _counter(
        "wharfinger_events_left_out_total",
        "Events that were never written: too many waited, or the API server did not take them.",
        read=True,
    )
    FLUSHED = _counter(
        "wharfinger_missed_hints_total",
        "Pods tried again only because they had waited for minutes, whether or not they were placed then.",
    )
    LOOP_STEPS = _histogram(
        "wharfinger_event_loop_step_seconds",
        "How late a beat of the event loop was that is due every 10 ms: how long a step kept everything else waiting.",
        LOOP_SECONDS,
    )
    LOOP_LONGEST_STEP = _gauge(
        "wharfinger_event_loop_longest_step_seconds",
        "The longest of these steps in the last minute or two; 50 ms are meant to be the most.",
    )
    ERRORS = _counter("wharfinger_errors_total", "Errors that the process goes on after, by where they happened.", "place")
    PLUGIN_FAULTS = _counter(
        "wharfinger_plugin_faults_total",
        "How often a method of a plugin raised an error, or answered against its contract. The pod concerned waits, the others go on.",
        "plugin",
        "method",
    )
    RULE_EVALUATIONS = _counter(
        "wharfinger_policy_rule_evaluations_total",
        "Nodes that a policy's rule was evaluated on. Every evaluation counts; what is remembered from earlier decisions is none.",
        "policy",
        "rule",
        read=True,
    )
    RULE_REJECTIONS = _counter(
        "wharfinger_policy_rule_rejections_total",
        "Nodes that evaluations of a policy's filter have rejected, a part of its evaluations.",
        "policy",
        "rule",
        read=True,
    )
    RULE_SECONDS = _counter(
        "wharfinger_policy_rule_seconds_total",
        "Time spent evaluating a policy's rule: evaluations of all nodes are measured each, updates in about one of ten decisions and "
        "counted ten times.",
        "policy",
        "rule",
        read=True,
    )
    POLICY_ACTIVE = _gauge("wharfinger_policy_active_info", "1 for each active policy and its revision.", "policy", "revision")
    POLICY_RELOADS = _counter(
        "wharfinger_policy_reload_total",
        "New texts of policies by what came of them: 'accepted', 'refused' (what held before it goes on), or 'removed' on purpose.",
        "result",
    )
    POLICY_LAST_SUCCESS = _gauge(
        "wharfinger_policy_last_success_timestamp_seconds",
        "When the text that holds of a policy was accepted, in seconds since 1970.",
        "policy",
    )
    POLICY_STATE = _gauge(
        "wharfinger_policies",
        "Policies by state: 'active', 'shadow', 'kept' (a former version holds, the last text is refused), 'refused' (none holds), 'off', "
        "'suspended' (it takes too long to decide; pods that it governs wait).",
        "state",
    )
    POLICY_SUSPENSIONS = _counter(
        "wharfinger_policy_suspensions_total",
        "How often a policy was suspended: it took more of decisions than its budget (`limits.policyBudget`), several times in a row.",
        "policy",
    )
    POLICY_SOURCE_LOST = _gauge(
        "wharfinger_policy_source_lost", "1 for a source of policies that cannot be read at present, 0 for one that can.", "source"
    )
    ADMISSION_REVIEWS = _counter(
        "wharfinger_policy_admission_total",
        "Questions to the webhook about policies: 'allowed', 'refused', or not judged: 'unreadable', 'forbidden' (of somebody who "
        "is not the API server), 'busy' (too many at once), 'late' (no verdict in time), 'failed'.",
        "result",
    )
    SHADOW_DECISIONS = _counter(
        "wharfinger_policy_shadow_decisions_total",
        "Decisions that a shadow policy was held against: 'agree', 'disagree' (it would have chosen otherwise), 'error', or "
        "'unseen' because it may only cost so much.",
        "policy",
        "result",
        read=True,
    )
    SIGNAL_REFRESH_DURATION = _histogram(
        "wharfinger_signal_refresh_duration_seconds",
        "Time of asking for a metric of policies, until its samples are published or the attempt has failed.",
        REQUEST_SECONDS,
        "server",
    )
    SIGNAL_FAILURES = _counter(
        "wharfinger_signal_refresh_failures_total",
        "Attempts to refresh a metric of policies that brought nothing, by kind: 'unreachable', 'timeout', 'tls', 'credentials', 'query' "
        "(not understood, or too expensive), 'overloaded', 'server', 'answer' (not what a metric can be), 'settings', "
        "'limit' (not asked, there are too many).",
        "server",
        "kind",
    )
    SIGNAL_AGE = _gauge(
        "wharfinger_signal_age_seconds",
        "Seconds since the newest sample of a policy's metric was taken; infinite without one.",
        "policy",
        "metric",
    )
    SIGNAL_COVERAGE = _gauge(
        "wharfinger_signal_coverage_ratio", "Part of the nodes that have a fresh sample of a policy's metric.", "policy", "metric"
    )
    SIGNAL_SUSPENDED = _gauge(
        "wharfinger_signal_suspended",
        "1 for a policy's metric that too few nodes have a fresh sample of: rules that use it have no say; else 0.",
        "policy",
        "metric",
    )
    SIGNAL_SUSPENSIONS = _counter(
        "wharfinger_signal_suspensions_total",
        "Times that a policy's metric lost its say because too few nodes had fresh samples.",
        "policy",
        "metric",
    )
    SIGNAL_SERIES = _gauge(
        "wharfinger_signal_series",
        "Series of the last answer for a policy's metric: 'matched' to nodes, 'unlabelled', 'unmatched', 'doubled' or 'invalid'.",
        "metric",
        "state",
    )
    WORKQUEUE_DEPTH = _gauge("workqueue_depth", "Objects that wait for a reconcile, by controller.", "name")
    WORKQUEUE_ADDS = _counter("workqueue_adds_total", "Objects that were put in line for a reconcile.", "name")
    WORKQUEUE_RETRIES = _counter("workqueue_retries_total", "Objects that come back because their reconcile failed.", "name")
    WORKQUEUE_WAIT = _histogram(
        "workqueue_queue_duration_seconds",
        "Time that an object waits in line before its reconcile begins.",
        exponential(10e-9, 10, 10),
        "name",
    )
    RECONCILES = _counter(
        "wharfinger_reconcile_total",
        "Reconciles by result: 'success', 'requeue' (looked at again soon, though nothing failed), 'conflict' (somebody else wrote, or the "
        "object has gone; tried again), 'error'.",
        "controller",
        "result",
    )
    RECONCILE_DURATION = _histogram("wharfinger_reconcile_duration_seconds", "Time of a reconcile.", REQUEST_SECONDS, "controller")
    STATE_REVISION = _gauge("wharfinger_state_revision", "How many changes of the cluster have been taken in.")
    BUILD = _gauge("wharfinger_build_info", "1; the version of this process.", "version")
    LOG_LINES_LEFT_OUT = _counter(
        "wharfinger_log_lines_left_out_total",
        "Log lines that were not written: 'repeated' errors, or lines 'unread' for too long by whoever reads the log.",
        "reason",
        read=True,
    )

    @property
    def declaration(self) -> Declaration:
        """The declaration of the metric."""
        declared: Declaration = self.value
        return declared

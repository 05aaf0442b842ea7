"""Every metric of the process, declared once.

A metric that means the same as one of kube-scheduler 1.36 (pkg/scheduler/metrics/metrics.go) or client-go
(component-base/metrics/prometheus) has its name, labels and buckets. So dashboards and alerts made for kube-scheduler work here too. The
names of all other metrics begin with `wharfinger_`. Labels never hold names of pods or nodes: the number of series depends on profiles,
plugins and policies alone.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

ALL_RULES = "*"
"""The value of the label `rule` for all rules of a policy together."""


class Kind(Enum):
    """Type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Declaration(Struct, frozen=True, kw_only=True):
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
        "Attempts to place a pod, by result: 'scheduled' if it is bound, 'unschedulable' if no node is feasible, 'error' if "
        "another fault ended the attempt.",
        "result",
        "profile",
    )
    ATTEMPT_DURATION = _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "Time of an attempt, from the moment the pod leaves the queue until it is bound or goes back to the queue.",
        ATTEMPT_SECONDS,
        "result",
        "profile",
    )
    ALGORITHM_DURATION = _histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "Time of the decision: filtering, scoring and, if no node is feasible, preemption.",
        ATTEMPT_SECONDS,
    )
    SLI_DURATION = _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "Time from the moment a pod is first ready to be placed until it is bound, over all its attempts, without the time behind "
        "scheduling gates. 'attempts' is '15+' for fifteen or more.",
        exponential(0.01, 2, 20),
        "attempts",
    )
    POD_ATTEMPTS = _histogram("scheduler_pod_scheduling_attempts", "Number of attempts until a pod was placed.", exponential(1, 2, 5))
    PENDING_PODS = _gauge(
        "scheduler_pending_pods",
        "Pending pods, by queue: 'active' (tried next), 'backoff' (tried after a pause), 'unschedulable' (wait for an event), "
        "'gated' (have scheduling gates).",
        "queue",
    )
    UNSCHEDULABLE_PODS = _gauge(
        "scheduler_unschedulable_pods",
        "Unschedulable pods, by the plugin or policy rule that rejected nodes for them. A pod counts for each of these.",
        "plugin",
        "profile",
    )
    INCOMING_PODS = _counter(
        "scheduler_queue_incoming_pods_total",
        "Pods added to a queue, by queue and by the event that caused it.",
        "queue",
        "event",
    )
    POINT_DURATION = _histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "Time of all plugins of an extension point in one attempt. Score includes PreScore. PreFilter, Filter, Score and "
        "PostFilter are measured in about one of ten decisions; PreFilter only in decisions that reuse no earlier result.",
        POINT_SECONDS,
        "extension_point",
        "status",
        "profile",
    )
    PLUGIN_DURATION = _histogram(
        "scheduler_plugin_execution_duration_seconds",
        "Time of one plugin at an extension point in one attempt, measured in about one of ten decisions. After a placement, a "
        "plugin evaluates only the changed nodes. For rules of policies, see wharfinger_policy_rule_seconds_total.",
        PLUGIN_SECONDS,
        "plugin",
        "extension_point",
        "status",
    )
    PERMIT_WAIT = _histogram(
        "scheduler_permit_wait_duration_seconds", "Time that pods waited for Permit plugins.", ATTEMPT_SECONDS, "result"
    )
    PREEMPTION_ATTEMPTS = _counter("scheduler_preemption_attempts_total", "Preemptions: a node was nominated and victims were chosen.")
    PREEMPTION_VICTIMS = _histogram("scheduler_preemption_victims", "Number of victims of one preemption.", exponential(1, 2, 7))
    WAITING_GROUPS = _gauge(
        "wharfinger_waiting_groups",
        "Groups of pods with members that wait, by queue: 'gated' (fewer members exist than it needs, or its PodGroup is not there), "
        "'active', 'backoff', 'unschedulable' (wait for room), 'in_flight' (being placed).",
        "queue",
    )
    GROUP_ATTEMPTS = _counter(
        "scheduler_podgroup_schedule_attempts_total",
        "Attempts to place a group of pods, by result: 'scheduled' if its members were assumed, 'waiting_on_preemption' if victims are "
        "evicted for it, 'unschedulable' if no placement was found, 'error' if another fault ended the attempt.",
        "result",
        "profile",
    )
    GROUP_ATTEMPT_DURATION = _histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "Time of an attempt, from the moment the group leaves the queue until its members are being bound or it goes back to the queue.",
        ATTEMPT_SECONDS,
        "result",
        "profile",
    )
    GROUP_ALGORITHM_DURATION = _histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "Time of the search for a placement of a group, with the pauses in which other pods were placed.",
        ATTEMPT_SECONDS,
    )
    SCHEDULED_AFTER_FLUSH = _counter(
        "scheduler_pod_scheduled_after_flush_total",
        "Pods placed by the periodic retry of unschedulable pods: an event for them was missed.",
    )
    CACHE_SIZE = _gauge("scheduler_cache_size", "Nodes, pods on nodes, and pods assumed on nodes but not yet seen as bound.", "type")
    UNDER_WAY = _gauge("scheduler_goroutines", "Concurrent operations: 'binding' of pods, 'status' updates, waiting or sent.", "operation")
    LEADER = _gauge("leader_election_master_status", "1 if this process holds the Lease, otherwise 0.", "name")
    REQUESTS = _counter(
        "rest_client_requests_total",
        "Requests to the API server, by status code ('<error>' without an answer), method and host.",
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
    EVENT_AGE = _gauge("wharfinger_event_age_seconds", "Age of the oldest event that is not written yet; 0 if there is none.")
    EVENTS_LEFT_OUT = _counter(
        "wharfinger_events_left_out_total",
        "Events that were dropped: the queue was full, or the API server refused them.",
        read=True,
    )
    FLUSHED = _counter(
        "wharfinger_missed_hints_total",
        "Pods tried again by the periodic retry of unschedulable pods, placed or not.",
    )
    LOOP_STEPS = _histogram(
        "wharfinger_event_loop_step_seconds",
        "Time that a step blocked the event loop, measured as the delay of a timer of 10 ms.",
        LOOP_SECONDS,
    )
    LOOP_LONGEST_STEP = _gauge(
        "wharfinger_event_loop_longest_step_seconds",
        "The longest step of the event loop in the last one to two minutes. The target is 50 ms at most.",
    )
    ERRORS = _counter("wharfinger_errors_total", "Errors after which the process continues, by place.", "place")
    PLUGIN_FAULTS = _counter(
        "wharfinger_plugin_faults_total",
        "Errors raised by a method of a plugin, or results that its contract does not allow. The pod waits; other pods are not affected.",
        "plugin",
        "method",
    )
    RULE_EVALUATIONS = _counter(
        "wharfinger_policy_rule_evaluations_total",
        "Nodes on which a policy's rule was evaluated. Results that are reused from earlier decisions do not count. The rules of a "
        "policy of a namespace are counted together, with the rule '*'.",
        "policy",
        "rule",
        read=True,
    )
    RULE_REJECTIONS = _counter(
        "wharfinger_policy_rule_rejections_total",
        "Evaluations in which a policy's filter rejected the node.",
        "policy",
        "rule",
        read=True,
    )
    RULE_SECONDS = _counter(
        "wharfinger_policy_rule_seconds_total",
        "Time spent on evaluating a policy's rule. Evaluations of all nodes are always measured; updates are measured in about "
        "one of ten decisions and counted ten times.",
        "policy",
        "rule",
        read=True,
    )
    POLICY_ACTIVE = _gauge("wharfinger_policy_active_info", "1 for each active policy and its revision.", "policy", "revision")
    POLICY_RELOADS = _counter(
        "wharfinger_policy_reload_total",
        "New texts of policies, by result: 'accepted', 'refused' (the former version stays in force), 'removed'.",
        "result",
    )
    POLICY_LAST_SUCCESS = _gauge(
        "wharfinger_policy_last_success_timestamp_seconds",
        "Time at which the text in force of a policy was accepted, in seconds since 1970.",
        "policy",
    )
    POLICY_STATE = _gauge(
        "wharfinger_policies",
        "Policies by state: 'active', 'shadow', 'kept' (the last text was refused, a former version is in force), 'refused' (no "
        "version is in force), 'off', 'suspended' (it takes too long; pods that it governs wait).",
        "state",
    )
    POLICY_SUSPENSIONS = _counter(
        "wharfinger_policy_suspensions_total",
        "Suspensions of a policy: it exceeded its budget (`limits.policyBudget`) in several decisions in a row.",
        "policy",
    )
    POLICY_SOURCE_LOST = _gauge(
        "wharfinger_policy_source_lost", "1 for a source of policies that cannot be read, 0 for one that can.", "source"
    )
    ADMISSION_REVIEWS = _counter(
        "wharfinger_policy_admission_total",
        "Requests to the webhook, by result: 'allowed', 'refused', or without a verdict: 'unreadable', 'forbidden' (the client is "
        "not the API server), 'busy' (too many requests), 'late' (timeout), 'failed'.",
        "result",
    )
    SHADOW_DECISIONS = _counter(
        "wharfinger_policy_shadow_decisions_total",
        "Decisions compared with a shadow policy, by result: 'agree', 'disagree' (it would choose another node), 'error', "
        "'unseen' (no time for the comparison).",
        "policy",
        "result",
        read=True,
    )
    SIGNAL_REFRESH_DURATION = _histogram(
        "wharfinger_signal_refresh_duration_seconds",
        "Time of a query for a metric of policies, until its samples are published or the query has failed.",
        REQUEST_SECONDS,
        "server",
    )
    SIGNAL_FAILURES = _counter(
        "wharfinger_signal_refresh_failures_total",
        "Failed queries for a metric of policies, by kind: 'unreachable', 'timeout', 'tls', 'credentials', 'query' (not "
        "understood, or too expensive), 'overloaded', 'server', 'answer' (not one number per node), 'settings', 'limit' (not "
        "sent, too many queries).",
        "server",
        "kind",
    )
    SIGNAL_AGE = _gauge(
        "wharfinger_signal_age_seconds",
        "Age of the newest sample of a policy's metric; infinite without samples.",
        "policy",
        "metric",
    )
    SIGNAL_COVERAGE = _gauge(
        "wharfinger_signal_coverage_ratio", "Share of the nodes with a fresh sample of a policy's metric.", "policy", "metric"
    )
    SIGNAL_SUSPENDED = _gauge(
        "wharfinger_signal_suspended",
        "1 if too few nodes have a fresh sample of a policy's metric, so that the rules that use it are suspended; otherwise 0.",
        "policy",
        "metric",
    )
    SIGNAL_SUSPENSIONS = _counter(
        "wharfinger_signal_suspensions_total",
        "Suspensions of a policy's metric because too few nodes had fresh samples.",
        "policy",
        "metric",
    )
    SIGNAL_SERIES = _gauge(
        "wharfinger_signal_series",
        "Series in the last answer for a policy's metric: 'matched' to nodes, 'unlabelled', 'unmatched', 'doubled' or 'invalid'.",
        "metric",
        "state",
    )
    WORKQUEUE_DEPTH = _gauge("workqueue_depth", "Objects waiting for a reconcile, by controller.", "name")
    WORKQUEUE_ADDS = _counter("workqueue_adds_total", "Objects added to the queue of a controller.", "name")
    WORKQUEUE_RETRIES = _counter("workqueue_retries_total", "Objects added again because their reconcile failed.", "name")
    WORKQUEUE_WAIT = _histogram(
        "workqueue_queue_duration_seconds",
        "Time that an object waits in the queue before its reconcile.",
        exponential(10e-9, 10, 10),
        "name",
    )
    RECONCILES = _counter(
        "wharfinger_reconcile_total",
        "Reconciles by result: 'success', 'requeue' (repeated soon, without a failure), 'conflict' (the object was changed or "
        "deleted by others; repeated), 'error'.",
        "controller",
        "result",
    )
    RECONCILE_DURATION = _histogram("wharfinger_reconcile_duration_seconds", "Time of a reconcile.", REQUEST_SECONDS, "controller")
    EXPANDER_DURATION = _histogram(
        "wharfinger_expander_answer_seconds",
        "Time of `wharf expander` for an answer to cluster-autoscaler, which waits for five seconds, by result: 'answered', 'refused' "
        "(the request cannot be read), 'cancelled' (the client has ended it, or its deadline has passed), 'failed'.",
        LOOP_SECONDS,
        "result",
    )
    STATE_REVISION = _gauge("wharfinger_state_revision", "Number of changes of the cluster that were applied.")
    BUILD = _gauge("wharfinger_build_info", "1; the label is the version of this process.", "version")
    LOG_LINES_LEFT_OUT = _counter(
        "wharfinger_log_lines_left_out_total",
        "Log lines that were dropped, by reason: 'repeated' errors, or 'unread' because the log was not read in time.",
        "reason",
        read=True,
    )

    @property
    def declaration(self) -> Declaration:
        """The declaration of the metric."""
        declared: Declaration = self.value
        return declared

"""Every line that the process logs about its work, with its fields. The table in docs/operating/metrics-and-logs.md is generated from it.

The process also logs notes at the start, which are sentences (a configured plugin that does not exist, an API server that does not
answer yet), and lines of other libraries, which have a `logger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A log line: its `event`, its levels, its meaning, and the meaning of its fields."""

    event: str
    level: str
    means: str
    fields: Mapping[str, str] = field(default_factory=dict)


ALWAYS = {
    "time": "UTC, with microseconds",
    "level": "debug, info, warning or error",
    "event": "the name of the line",
    "dry_run": "true if nothing is written to the cluster; otherwise absent",
    "logger": "the library that logged the line, if it is not Wharfinger",
}
"""Fields that any line may have."""

_ATTEMPT = {
    "pod": "namespace/name",
    "uid": "the pod's uid",
    "result": "`scheduled`, `unschedulable` or `error`, as in `scheduler_schedule_attempts_total`",
    "profile": "the schedulerName",
    "group": "the group that the pod is a member of",
    "node": "the chosen node",
    "policy_revision": "the first 12 digits of the hash of all active policies",
    "snapshot_revision": "the revision of the cluster's state; it increases with every change",
    "feasible": "the number of feasible nodes",
    "nodes": "the number of all nodes",
    "attempts": "the number of attempts for this pod, including this one",
    "message": "why the pod was not placed, as in its event",
    "plugins": "plugins and policy rules that rejected nodes",
    "queue_ms": "time in the active queue",
    "decide_ms": "filters, scores and, if no node is feasible, preemption",
    "reserve_ms": "Reserve plugins",
    "permit_ms": "time that Permit plugins waited",
    "pre_bind_ms": "PreBind plugins and volumes",
    "bind_ms": "the binding, from the request to the answer",
    "total_ms": "the whole attempt; the rest after all stages is time waiting for the event loop",
}

LINES = (
    LogLine(
        event="attempt",
        level="info; warning for `error`",
        means="One attempt to place a pod. There is exactly one such line per attempt. Stages that did not run have no field.",
        fields=_ATTEMPT,
    ),
    LogLine(
        event="group attempt",
        level="info; warning for `error`",
        means="One attempt to place a group of pods. Each of its members has an `attempt` too.",
        fields={
            "group": "namespace/name",
            "source": "who says what holds for the group: a PodGroup, a label or a policy",
            "result": "as in `scheduler_podgroup_schedule_attempts_total`",
            "profile": "the schedulerName",
            "min_count": "how many members must be placed before any of them is bound",
            "placed": "the number of members that got a node",
            "placed_before": "the number of members that had one already",
            "without_node": "the number of members that got none, if others did",
            "domains": "the domains in which the group is placed, by topology key",
            "message": "why members have no node",
            "search_ms": "the search, with the pauses in which other pods were placed",
            "total_ms": "the whole attempt, until its members are being bound",
        },
    ),
    LogLine(
        event="preemption",
        level="info",
        means="A node was nominated for a pod, and its victims are evicted.",
        fields={"pod": "the preemptor", "uid": "its uid", "node": "the node", "victims": "the number of victims"},
    ),
    LogLine(
        event="failed",
        level="warning; error if unexpected",
        means="An operation failed; the process continues.",
        fields={
            "where": "the operation, with the names of objects",
            "place": "the operation in one word, as in `wharfinger_errors_total`",
            "error": "the error message",
            "kind": "the class of the error",
            "exception": "the traceback, if the error is unexpected",
        },
    ),
    LogLine(
        event="errors suppressed",
        level="warning",
        means="After five errors with the same place and kind within ten seconds, further ones are only counted.",
        fields={"place": "as in `failed`", "kind": "as in `failed`", "lines": "the number of omitted `failed` lines"},
    ),
    LogLine(
        event="pods waited too long",
        level="warning",
        means="Unschedulable pods were tried again because there was no event for them for five minutes.",
        fields={"pods": "their number"},
    ),
    LogLine(
        event="log lines dropped",
        level="warning",
        means="Log output stalled: 16 MiB were buffered, and later lines were dropped.",
        fields={"lines": "the number of dropped lines", "reason": "the reason in words"},
    ),
    LogLine(
        event="crashed",
        level="error",
        means="The process ends because of a bug in Wharfinger.",
        fields={"exception": "the traceback; please report it"},
    ),
    LogLine(event="serving", level="info", means="Health and metrics are served.", fields={"url": "the address"}),
    LogLine(
        event="serving admission",
        level="info",
        means="The webhook for policies is served; it has its first certificate.",
        fields={"url": "the address"},
    ),
    LogLine(event="admission has a certificate", level="info", means="The webhook uses a new certificate."),
    LogLine(
        event="admission has no new certificate",
        level="warning",
        means="The files of the certificate are missing or do not match. The former certificate stays in use, if there is one.",
        fields={"error": "the reason"},
    ),
    LogLine(
        event="admission accepts any client",
        level="warning",
        means="`anyCaller` is set: every client that reaches the webhook's port can have texts checked.",
        fields={"fix": "the setting to use instead"},
    ),
    LogLine(
        event="admission gave no verdict",
        level="warning",
        means="A text was not checked, or not in time. The webhook's `failurePolicy` decides whether it is stored.",
        fields={"user": "the user who wanted to store it", "object": "the name of the object", "error": "the reason"},
    ),
    LogLine(event="connected", level="info", means="The API server has answered.", fields={"server": "its URL", "version": "its version"}),
    LogLine(
        event="scheduling",
        level="info",
        means="This process is the leader and starts to place pods.",
        fields={"profiles": "the schedulerNames", "identity": "the name of the process in the Lease and in events"},
    ),
    LogLine(
        event="stopping",
        level="info",
        means="The process got a signal; no further pod is taken from the queue.",
        fields={"binding": "pods being bound", "writing": "statuses being written"},
    ),
    LogLine(event="stopped", level="info", means="All started work has ended, or the grace period is over."),
    LogLine(
        event="policy suspended",
        level="warning",
        means="A policy took too long in several decisions in a row. Pods that it governs wait until it is tried again.",
        fields={"policy, source, key, mode, revision": "as below", "why": "the time it took and the limit, in words"},
    ),
    LogLine(
        event="policy resumed",
        level="info",
        means="A suspended policy is tried again, or was replaced.",
        fields={"policy, source, key, mode, revision": "as below"},
    ),
    LogLine(
        event="policy accepted",
        level="info; warning with findings",
        means="A text of a policy compiles, its tests pass, and it is in force now.",
        fields={
            "policy": "its name",
            "source": "its source",
            "key": "the file or object in the source",
            "mode": "enforce, shadow or off",
            "revision": "the first 12 digits of its hash",
            "report": "warnings, as `wharf check` prints them",
        },
    ),
    LogLine(
        event="policy changed",
        level="info; error if refused",
        means="An unchanged text has another state: another policy with its name was added or removed, or its mode changed.",
        fields={
            "policy, source, key, mode, revision": "as above",
            "state": "active, shadow, kept, refused or off",
            "report": "what is wrong with the text",
        },
    ),
    LogLine(
        event="policy warning",
        level="warning",
        means="A policy that is in force was tried on the current cluster, with findings.",
        fields={"policy, source, key, mode, revision": "as above", "report": "the findings"},
    ),
    LogLine(
        event="policy refused",
        level="error",
        means="A text of a policy does not compile or fails its tests; the former version stays in force.",
        fields={
            "policy, source, key, mode, revision": "as above",
            "kept": "whether a former version is in force",
            "report": "what is wrong with the text",
        },
    ),
    LogLine(
        event="policy removed",
        level="info",
        means="A policy was removed.",
        fields={"policy, source, key, mode, revision": "as above"},
    ),
    LogLine(
        event="policies adopted",
        level="info",
        means="A new set of policies is in force.",
        fields={
            "seconds": "the time to compile and try it",
            "active, shadow, kept, refused, off": "the number of policies in each state",
        },
    ),
    LogLine(
        event="policy source lost",
        level="error",
        means="A folder or object with policies cannot be read; its policies stay in force.",
        fields={"source": "the source", "why": "the reason"},
    ),
    LogLine(
        event="signal not refreshed",
        level="warning",
        means="A query of a metric failed. The last samples stay in use. Logged once until the failure changes.",
        fields={
            "metrics": "the metrics that use the query, as policy.metric",
            "server": "the name of the Prometheus server, or metrics.k8s.io",
            "query": "the query",
            "kind": "as in `wharfinger_signal_refresh_failures_total`",
            "why": "the reason",
        },
    ),
    LogLine(
        event="signal answered again",
        level="info",
        means="A query that failed before has an answer again.",
        fields={"metrics, server, query": "as above"},
    ),
    LogLine(
        event="signal has odd series",
        level="warning",
        means="Series of an answer were left out. Logged once for each reason.",
        fields={
            "metrics, server, query": "as above",
            "what": "the reason",
            "series": "their number",
            "example": "one of them",
        },
    ),
    LogLine(
        event="metric suspended",
        level="warning",
        means="Too few nodes have a fresh sample of a policy's metric; the rules that use it are suspended.",
        fields={
            "policy": "the policy",
            "metric": "its name in the policy",
            "why": "the reason",
            "coverage": "the share of nodes with a fresh sample",
        },
    ),
    LogLine(
        event="metric resumed",
        level="info",
        means="Enough nodes have a fresh sample again; the rules are in force.",
        fields={"policy, metric, why, coverage": "as above"},
    ),
    LogLine(event="policy source read", level="info", means="A source of policies can be read again.", fields={"source": "the source"}),
    LogLine(
        event="policy source",
        level="warning",
        means="A source has a problem that does not prevent reading it.",
        fields={"source": "the source", "note": "the problem"},
    ),
    LogLine(
        event="custom resources are not defined; continuing without them",
        level="warning",
        means="The API server does not know some custom resources of Wharfinger. They are used as soon as it does.",
        fields={"kinds": "the kinds", "fix": "how to install them"},
    ),
    LogLine(
        event="objects may not be read; continuing without them",
        level="warning",
        means="The permission to read custom resources, or the objects of PolicyApps, is missing.",
        fields={"kinds": "the kinds", "why": "the error for each"},
    ),
    LogLine(
        event="objects can be read now",
        level="info",
        means="Kinds that were not defined, or could not be read, can be read now.",
        fields={"kinds": "the kinds"},
    ),
)

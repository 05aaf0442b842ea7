"""Every line that the process logs about its work, with its fields: the table in docs/operations.md is made from it.

Besides these there are notes at the start, which are sentences (a plugin that a configuration names in vain, an API server that does not
answer yet), and lines of other libraries, which have a `logger`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line: its `event`, the levels it comes at, what it means, and what its fields hold."""

    event: str
    level: str
    means: str
    fields: Mapping[str, str] = field(default_factory=dict)


ALWAYS = {
    "time": "UTC, to the microsecond",
    "level": "debug, info, warning or error",
    "event": "what the line is about",
    "dry_run": "true where nothing is written to the cluster; else it is not there",
    "logger": "the library that logged it, if it was not us",
}
"""Fields that any line may have."""

_ATTEMPT = {
    "pod": "namespace/name",
    "uid": "the pod's uid",
    "result": "`scheduled`, `unschedulable` or `error`, as in `scheduler_schedule_attempts_total`",
    "profile": "the schedulerName",
    "node": "where it was placed, or would have been",
    "policy_revision": "the first 12 digits of the hash over all policies that held at the time",
    "snapshot_revision": "the state of the cluster that was decided on; it grows with every change",
    "feasible": "nodes that fit",
    "nodes": "nodes there were",
    "attempts": "how often the pod has been tried, this time included",
    "message": "why not, as in the event of the pod",
    "plugins": "plugins and policy rules that rejected nodes",
    "queue_ms": "how long it was ready before its turn came",
    "decide_ms": "filters, scores and, if nothing fitted, preemption",
    "reserve_ms": "Reserve plugins",
    "permit_ms": "waiting for Permit plugins",
    "pre_bind_ms": "PreBind plugins and volumes",
    "bind_ms": "the binding, from sending to the answer",
    "total_ms": "the attempt from its turn to its end; what no stage accounts for is waiting for the event loop",
}

LINES = (
    LogLine(
        event="attempt",
        level="info, warning for `error`",
        means="One pod was tried once. There is exactly one such line per attempt. Stages that did not run have no field.",
        fields=_ATTEMPT,
    ),
    LogLine(
        event="preemption",
        level="info",
        means="A node was nominated for a pod, and others have to leave it.",
        fields={"pod": "the preemptor", "uid": "its uid", "node": "the node", "victims": "how many have to leave"},
    ),
    LogLine(
        event="failed",
        level="warning; error if it was not foreseen",
        means="Something went wrong that the process goes on after.",
        fields={
            "where": "what was being done, with the names of the objects",
            "place": "the same in one word, as in `wharfinger_errors_total`",
            "error": "what was said",
            "kind": "the class of the error",
            "exception": "the traceback, if it was not foreseen",
        },
    ),
    LogLine(
        event="errors left out",
        level="warning",
        means="After five errors of one place and kind within ten seconds, further ones are only counted.",
        fields={"place": "where", "kind": "which", "lines": "how many `failed` lines were left out"},
    ),
    LogLine(
        event="pods waited too long",
        level="warning",
        means="Pods were tried again only because nothing had woken them for five minutes.",
        fields={"pods": "how many"},
    ),
    LogLine(
        event="log lines left out",
        level="warning",
        means="Whoever reads the log did not for so long that 16 MiB were waiting.",
        fields={"lines": "how many lines are missing here", "reason": "in words"},
    ),
    LogLine(
        event="crashed",
        level="error",
        means="The process ends by a mistake of ours.",
        fields={"exception": "the traceback, worth reporting"},
    ),
    LogLine(event="serving", level="info", means="Health and metrics are served.", fields={"url": "where"}),
    LogLine(
        event="serving admission",
        level="info",
        means="The webhook for SchedulingPolicies is served, from its first certificate on.",
        fields={"url": "where"},
    ),
    LogLine(event="admission has a certificate", level="info", means="The webhook is served with a certificate that is new."),
    LogLine(
        event="admission has no new certificate",
        level="warning",
        means="The files of the certificate are missing or do not fit each other. The former one goes on being served, if there was one.",
        fields={"error": "what is wrong"},
    ),
    LogLine(
        event="admission answers anybody",
        level="warning",
        means="`anyCaller` is set: whoever reaches the webhook's port may have texts judged.",
        fields={"fix": "what to set instead"},
    ),
    LogLine(
        event="admission gave no verdict",
        level="warning",
        means="A text was not judged, in time or at all. Whether it is stored says the webhook's `failurePolicy`.",
        fields={"user": "who wanted to store it", "object": "its name", "error": "why"},
    ),
    LogLine(event="connected", level="info", means="The API server has answered.", fields={"server": "its URL", "version": "its version"}),
    LogLine(
        event="scheduling",
        level="info",
        means="This process leads and begins to place pods.",
        fields={"profiles": "for which schedulerNames", "identity": "its name in the Lease and in events"},
    ),
    LogLine(
        event="stopping",
        level="info",
        means="A signal came: no further pod is taken.",
        fields={"binding": "pods being bound", "writing": "statuses being written"},
    ),
    LogLine(event="stopped", level="info", means="Everything under way has ended, or the grace period has."),
    LogLine(
        event="policy suspended",
        level="warning",
        means="A policy takes too long to decide, several times in a row: pods that it governs wait until it is tried again.",
        fields={"policy, source, key, mode, revision": "as below", "why": "what it took and what it may take, in words"},
    ),
    LogLine(
        event="policy resumed",
        level="info",
        means="A policy that was suspended is tried again, or has been replaced.",
        fields={"policy, source, key, mode, revision": "as below"},
    ),
    LogLine(
        event="policy accepted",
        level="info, warning with findings",
        means="A text of a policy compiles, its tests pass, and it holds from now on.",
        fields={
            "policy": "its name",
            "source": "where it comes from",
            "key": "which file or object there",
            "mode": "enforce, shadow or off",
            "revision": "the first 12 digits of its hash",
            "report": "warnings, as `wharf check` prints them",
        },
    ),
    LogLine(
        event="policy changed",
        level="info, error if it is refused now",
        means="A text that is not new fares otherwise: another policy of its name came or went, or its mode is another.",
        fields={
            "policy, source, key, mode, revision": "as above",
            "state": "active, shadow, kept, refused or off",
            "report": "what is wrong with it",
        },
    ),
    LogLine(
        event="policy warning",
        level="warning",
        means="A policy that holds was tried on the cluster, which was not known when it was accepted.",
        fields={"policy, source, key, mode, revision": "as above", "report": "what was found"},
    ),
    LogLine(
        event="policy refused",
        level="error",
        means="A text of a policy does not compile or fails its tests; what held before goes on.",
        fields={
            "policy, source, key, mode, revision": "as above",
            "kept": "whether a former version holds",
            "report": "what is wrong with it",
        },
    ),
    LogLine(
        event="policy removed",
        level="info",
        means="A policy was taken away on purpose.",
        fields={"policy, source, key, mode, revision": "as above"},
    ),
    LogLine(
        event="policies hold",
        level="info",
        means="A set of policies was taken over between two cycles.",
        fields={
            "seconds": "what compiling and trying it took",
            "active, shadow, kept, refused, off": "how many policies there are of each state",
        },
    ),
    LogLine(
        event="policy source lost",
        level="error",
        means="A folder or object with policies cannot be read; its policies go on as they were.",
        fields={"source": "which", "why": "the reason"},
    ),
    LogLine(
        event="signal not refreshed",
        level="warning",
        means="A query of policies was not answered as it should; said once until it fails otherwise. The samples from before grow older.",
        fields={
            "metrics": "the metrics that read it, as policy.metric",
            "server": "the name of the Prometheus server, or metrics.k8s.io",
            "query": "what was asked",
            "kind": "as in `wharfinger_signal_refresh_failures_total`",
            "why": "what is wrong",
        },
    ),
    LogLine(
        event="signal answered again",
        level="info",
        means="A query that failed before is answered.",
        fields={"metrics, server, query": "as above"},
    ),
    LogLine(
        event="signal has odd series",
        level="warning",
        means="Series of an answer were left out; said once for each kind of oddity.",
        fields={
            "metrics, server, query": "as above",
            "what": "what is odd about them",
            "series": "how many they are",
            "example": "one of them",
        },
    ),
    LogLine(
        event="metric suspended",
        level="warning",
        means="Too few nodes have a fresh sample of a policy's metric: the rules that use it have no say.",
        fields={"policy": "which", "metric": "its name there", "why": "in words", "coverage": "the part of the nodes that has one"},
    ),
    LogLine(
        event="metric resumed",
        level="info",
        means="Enough nodes have a fresh sample again: the rules decide.",
        fields={"policy, metric, why, coverage": "as above"},
    ),
    LogLine(event="policy source read", level="info", means="A source of policies can be read again.", fields={"source": "which"}),
    LogLine(
        event="policy source",
        level="warning",
        means="Something is odd about a source.",
        fields={"source": "which", "note": "what, in words"},
    ),
    LogLine(
        event="custom resources are not defined; going on without",
        level="warning",
        means="The API server does not know some of our custom resources. They are taken up as soon as it does.",
        fields={"kinds": "which", "fix": "what brings them"},
    ),
    LogLine(
        event="objects may not be read; going on without",
        level="warning",
        means="The API server does not let us read custom resources, or what is made for PolicyApps: see its roles.",
        fields={"kinds": "which", "why": "what it said of each"},
    ),
    LogLine(
        event="objects can be read now",
        level="info",
        means="Kinds that were not defined, or could not be read, can be by now.",
        fields={"kinds": "which"},
    ),
)

"""The JSON Schemas in `engine/wharfinger/schemas/`: of the settings, of snapshots, and of what each command prints with `--format json`.

The settings and the objects of snapshots have models, and so have most parts of the answers of commands. What commands add to these is
declared here. A new field of an answer is a new line here. A test holds each declaration against real outputs, and no output may have a
field that is not declared. A field is never removed or given another meaning within a version. Fields are named as in Python; the key of
each is its name in camelCase, as it is printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, get_type_hints

import jsonschema
import msgspec

from wharfinger.cli import running_process
from wharfinger.daemon.settings import Settings
from wharfinger.explain.difference import Cause
from wharfinger.explain.explained_policy import Governed, RejectingFilter
from wharfinger.explain.explanation import Explanation
from wharfinger.framework import policy_status
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.groups.results import GroupResult
from wharfinger.groups.terms import DomainFit
from wharfinger.language.report.plain_values import camel_case
from wharfinger.model import objects
from wharfinger.model.reading.snapshot_file import Capture
from wharfinger.prove.question import Verdict
from wharfinger.simulate.dry_run import ReasonCount
from wharfinger.simulate.placing import Mode
from wharfinger.simulate.replay import Change as ReplayedChange
from wharfinger.what_if.diff import Spread
from wharfinger.what_if.drain.answer import DrainOutcome
from wharfinger.what_if.optimal.model import Answer
from wharfinger.what_if.optimal.search import Placed
from wharfinger.what_if.rebalance.movable import Limits
from wharfinger.what_if.rebalance.plan import Goal, Move

VERSION = "v1"
FOLDER = Path(__file__).parent.parent / "engine" / "wharfinger" / "schemas" / VERSION
ADDRESS = f"https://wharfinger.dev/schemas/{VERSION}"


def without(model: type, *names: str, **changed: Any) -> Any:
    """The fields of a struct as a plain value that lacks some of them and has others changed."""
    kept = {name: hint for name, hint in get_type_hints(model).items() if name not in names}
    plain: Any = TypedDict(f"Plain{model.__name__}", kept | changed)  # type: ignore[operator]
    plain.__doc__ = model.__doc__
    return plain


# ── check and test ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Place(TypedDict):
    """Lines and columns count from 1, offsets (`start`, `end`) from 0; ends are exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    start: int
    end: int


class Label(Place):
    """A further place, and what is said of it."""

    label: str


class Finding(Place):
    """A diagnostic; `suggestion` replaces the text from `start` to `end` and fixes it."""

    code: str
    severity: Literal["error", "warning"]
    title: str
    message: str
    label: str
    others: list[Label]
    help: str | None
    suggestion: str | None


class Selection(TypedDict):
    """The method by which the pods of one selection are found."""

    line: int
    column: int
    lookup: str
    operations: int


class CostAmounts(TypedDict):
    """Operations for each node, and for each pod that is placed."""

    per_node: int
    kept: int
    per_placed_pod: int
    per_template: int
    decided_for: Literal["pod", "template"]


class Cost(CostAmounts):
    """Operations, and the selections of placed pods that they are for."""

    selections: list[Selection]


class RuleCost(Cost):
    """The cost of one rule."""

    rule: str
    line: int


class PolicyCost(TypedDict):
    """The cost of one policy."""

    policy: str
    rules: list[RuleCost]
    together: Cost
    evicting: int
    grouping: int
    instructions: int


class Check(TypedDict):
    """`wharf check --format json`; `omitted` findings are left out, `cost` is there with `--cost`."""

    diagnostics: list[Finding]
    errors: int
    warnings: int
    omitted: int
    cost: NotRequired[list[PolicyCost]]


class Failure(TypedDict):
    """An expectation that does not hold."""

    at: str
    message: str
    details: list[str]


class TestResult(TypedDict):
    """One test."""

    policy: str
    title: str
    at: str
    passed: bool
    failures: list[Failure]


class CoveredPoint(TypedDict):
    """The answers of a condition that tests have seen, and those that they have not."""

    policy: str
    rule: str
    at: str
    seen: list[Literal["true", "false", "missing"]]
    unseen: list[Literal["true", "false", "missing"]]


class Coverage(TypedDict):
    """The part of the rules that tests have covered."""

    fraction: float
    points: list[CoveredPoint]


class Test(TypedDict):
    """`wharf test --format json`; `untested` are policies without tests."""

    passed: int
    failed: int
    untested: list[str]
    tests: list[TestResult]
    coverage: Coverage


class Proof(TypedDict):
    """A statement about a policy, and its verdict; `counterexample` is a test block, and `fails_with` what it fails with."""

    statement: str
    verdict: Verdict
    counterexample: str | None
    fails_with: str | None
    because: str | None


# ── what would happen ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ChosenPolicy(TypedDict):
    """A policy that decides."""

    name: str
    version: str | None
    revision: str


class Revisions(TypedDict):
    """Hashes of the policies, and of them with the settings of Kubernetes' plugins."""

    policies: str
    chain: str


class Decided(TypedDict):
    """By what was decided."""

    policies: list[ChosenPolicy]
    revisions: Revisions


class ResourceUse(TypedDict):
    """Amounts of a resource on all nodes, in its base unit (CPU: millicores)."""

    requested: float
    allocatable: float
    fraction: float


class Utilisation(TypedDict):
    """The use of a cluster."""

    nodes: int
    nodes_touched: int
    pods: int
    resources: dict[str, ResourceUse]


class PodResult(TypedDict):
    """The decision about a pod: `totals` (one for each tier) with a node; `message` and `reasons` without one."""

    pod: str
    node: str | None
    feasible: int
    totals: NotRequired[list[float]]
    message: NotRequired[str]
    reasons: NotRequired[dict[str, int]]
    nominated: NotRequired[str]
    victims: NotRequired[list[str]]
    held: NotRequired[list[str]]
    devices: NotRequired[list[PodDevice]]
    explanation: NotRequired[without(Explanation, "pod", "node", "message", "feasible")]  # type: ignore[valid-type]


class DryRunSummary(TypedDict):
    """Sums; `after` is null where nothing was placed for later pods."""

    pods: int
    placed: int
    unschedulable: int
    evicted: int
    held: int
    reasons: list[ReasonCount]
    before: Utilisation
    after: Utilisation | None


class OptimalPlacement(TypedDict):
    """The result of `--optimal`; pods in `evicted` have no node in it. `fewest`: proved that no placement has fewer evictions and moves."""

    answer: Answer
    evicted: list[Placed]
    plan: list[Placed]
    moves: int
    fewest: bool
    why: str
    left_out: str


PlainGroupResult = without(GroupResult)


class DryRun(Decided):
    """`wharf dry-run --format json`."""

    mode: Mode
    pods: list[PodResult]
    groups: list[PlainGroupResult]  # type: ignore[valid-type]
    summary: DryRunSummary
    notes: list[str]
    ignored: dict[str, int]
    skipped: list[str]
    optimal: NotRequired[OptimalPlacement]


class DiffSide(TypedDict, total=False):
    """One side. Over a decision log only its `title`, and the number of `unschedulable` pods."""

    title: str
    policies: list[ChosenPolicy]
    revisions: Revisions
    utilisation: Utilisation
    spread: list[Spread]
    placed: int
    unschedulable: int
    evicted: int
    reasons: list[ReasonCount]


class DiffPlace(TypedDict):
    """The node and the devices of a pod; `message` is the reason if it gets no node."""

    node: str | None
    message: str
    devices: NotRequired[list[PodDevice]]


class SaidCause(without(Cause)):  # type: ignore[misc]
    """A rule that makes the difference; `message` is a sentence about it."""

    message: str


class DiffChange(TypedDict):
    """A pod that gets another node; `follows` without a cause of its own. Over a log with the time and the profile."""

    pod: str
    before: DiffPlace
    after: DiffPlace
    causes: list[SaidCause]
    follows: NotRequired[bool]
    group: NotRequired[str]
    at: NotRequired[str]
    profile: NotRequired[str]


class GroupChange(TypedDict):
    """Several pods of a group that change in the same way and by the same rules; `before` and `after` are their nodes."""

    group: str
    way: Literal["elsewhere", "lost", "gained", "devices"]
    pods: list[str]
    before: list[str]
    after: list[str]


class RulePods(TypedDict):
    """The number of pods that get another node because of a rule."""

    rule: str
    pods: int


class DiffSummary(TypedDict):
    """Sums."""

    changes: int
    elsewhere: int
    lost: int
    gained: int
    devices: int
    follow: int
    rules: list[RulePods]


class Diff(TypedDict):
    """`wharf diff --format json`."""

    before: DiffSide
    after: DiffSide
    changes: list[DiffChange]
    summary: DiffSummary
    notes: list[str]
    pods: int
    groups: NotRequired[list[GroupChange]]
    replaced: NotRequired[int]
    decisions: NotRequired[int]
    profiles: NotRequired[list[str]]


class NodesLike(TypedDict):
    """Further nodes like one that is there."""

    like: str
    count: int


class Room(TypedDict, total=False):
    """The number of pods that a node (or all nodes with one value of a label) has room for."""

    node: str
    value: str | None
    placed: int
    more: int


class Stop(TypedDict):
    """The reasons why the next pod has no node."""

    pod: str
    message: str
    reasons: dict[str, int]
    nominated: NotRequired[str]
    victims: NotRequired[list[str]]


class CapacityChange(TypedDict):
    """One change: more nodes, less of a resource, or one rule less."""

    change: Literal["nodes", "less", "withoutRule"]
    like: NotRequired[str]
    count: NotRequired[int]
    resource: NotRequired[str]
    amount: NotRequired[Any]
    rule: NotRequired[str]


class CapacityGain(CapacityChange):
    """The number of further pods, or groups, that fit after a change."""

    more: int
    at_least: bool


class WorkloadRoom(TypedDict):
    """The number of further pods of a workload that fit."""

    workload: str
    pods: int
    placed: int
    more: int
    at_least: bool
    added: CapacityGain | None
    nodes: list[Room]
    by: dict[str, list[Room]]
    stop: Stop | None
    changes: list[CapacityGain]
    untried: list[CapacityChange]


class DomainGroups(TypedDict):
    """The number of groups within a domain; key and value are empty for groups that no level binds."""

    key: str
    value: str
    groups: int


class GroupRoom(TypedDict):
    """The number of further groups that fit: `more` whole groups; `stop` is the reason why the next one has no place."""

    group: str
    source: str
    pods: int
    placed: int
    more: int
    at_least: bool
    nodes: list[Room]
    domains: list[DomainGroups]
    stop: PlainGroupResult | None  # type: ignore[valid-type]
    added: CapacityGain | None
    changes: list[CapacityGain]
    untried: list[CapacityChange]


class Capacity(Decided):
    """`wharf capacity --format json`."""

    nodes: NodesLike | None
    workloads: list[WorkloadRoom]
    groups: list[GroupRoom]


class DrainedPod(TypedDict):
    """The outcome of a pod; `source` is the node that it leaves."""

    pod: str
    source: str | None
    controller: str | None
    outcome: DrainOutcome
    step: int | None
    alone: NotRequired[bool]
    reason: NotRequired[str]
    displaced_by: NotRequired[str]
    replacement: NotRequired[PodResult]


class BudgetUse(TypedDict):
    """The disruptions that a PodDisruptionBudget allows."""

    budget: str
    pods: int
    allowed_now: int
    forbids_now: bool
    forbidden: int


class DrainSummary(TypedDict):
    """Pods by what becomes of them."""

    placed: int
    waits: int
    gone: int
    forbidden: int
    refused: int
    stays: int
    before: Utilisation
    after: Utilisation


class Drain(TypedDict):
    """`wharf drain --format json`."""

    nodes: list[str]
    removed: bool
    revisions: Revisions
    steps: int
    pods: list[DrainedPod]
    groups: list[PlainGroupResult]  # type: ignore[valid-type]
    budgets: list[BudgetUse]
    has_budgets: bool
    summary: DrainSummary
    skipped: list[str]


class Reached(TypedDict):
    """The value of a goal before and after."""

    goal: Goal
    before: float
    after: float
    moves: int


class RebalanceSummary(TypedDict):
    """Sums, and why pods stay."""

    moves: int
    most_cordoned: int
    movable: int
    staying: dict[str, int]
    not_ended: list[str]
    placed_first: list[str]
    before: Utilisation
    after: Utilisation


class Rebalance(TypedDict):
    """`wharf rebalance --format json`; `wharf rebalance --plan` reads it again."""

    goals: list[Reached]
    cost: float
    revisions: Revisions
    unit: dict[str, int]
    limits: without(Limits, namespaces=list[str])  # type: ignore[valid-type]
    moves: list[Move]
    uncordon: list[str]
    summary: RebalanceSummary
    skipped: list[str]


class Trial(TypedDict):
    """Numbers, and what they lead to; an objective that would divide by 0 is null."""

    trial: str
    objectives: dict[str, float | None]
    numbers: dict[str, str]


class HeldOut(TypedDict):
    """The objectives on what was kept from the search."""

    current: dict[str, float | None]
    best: dict[str, float | None]
    worse: list[Any]


class Tune(TypedDict):
    """`wharf tune --format json`; `change` is a patch of the policies."""

    searched: list[str]
    held_out_data: list[str]
    trials: int
    unusable: int
    current: Trial
    best: Trial
    front: list[Trial]
    held_out: HeldOut | None
    failing_tests: list[str]
    change: str


# ── look ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Remedy(TypedDict):
    """A change of a node after which it would accept the pod."""

    node: str
    sentences: list[str]


class ExplainPod(TypedDict):
    """`wharf explain pod --format json`; `bound_to` is the node that the pod is on, `group` the group that it belongs to."""

    bound_to: str | None
    group: str | None
    notes: list[str]
    explanation: Explanation
    remedies: list[Remedy]


class GroupMember(TypedDict):
    """A member of a group; `state` is `placed`, `would go here`, `waits`, `is being deleted`, or why it is held back."""

    pod: str
    state: str
    node: str | None


class ExplainGroup(TypedDict):
    """`wharf explain group --format json`; `domains` say what each takes of the members that wait, `omitted` further ones are left out."""

    group: str
    source: str
    state: Literal["placed", "placed in part", "waits for members", "waits for room", "not found", "has a place"]
    message: str
    terms: list[str]
    domains: list[DomainFit]
    omitted: int
    members: list[GroupMember]


class Differing(TypedDict):
    """A pod for which the policy makes a difference."""

    pod: str
    without: str | None
    chosen: str | None
    causes: list[str]


class ExplainedCost(CostAmounts):
    """The cost of decisions by a policy; `evicting` per pod that may be evicted, `grouping` per pod that may belong to a group."""

    evicting: int
    grouping: int


class ExplainPolicy(TypedDict):
    """`wharf explain policy --format json`."""

    policy: str
    revision: str
    authority: str
    scope: str | None
    governed: Governed
    nodes: int
    looked_at: int
    filters: list[RejectingFilter]
    differing: list[Differing]
    suspended: list[str]
    cost: ExplainedCost


class ReplayDifference(TypedDict):
    """A decision that does not come out as recorded."""

    place: str
    pod: str
    part: str
    recorded: Any
    found: Any


class Replay(TypedDict):
    """`wharf replay --format json`; `searches` are those for groups. `changes` are there where other policies decide too."""

    decisions: int
    pods: int
    searches: int
    differences: list[ReplayDifference]
    changes: NotRequired[list[without(ReplayedChange, at=str)]]  # type: ignore[valid-type]


class RuleTime(TypedDict):
    """The time that a rule takes over all nodes; null where it has nothing to say."""

    rule: str
    point: str
    microseconds: float | None


class Bench(TypedDict):
    """`wharf bench --format json`."""

    decisions_per_second: float
    microseconds_per_decision: float
    placements_per_second: float
    nodes: int
    pods: int
    placed: int
    templates: int
    seconds: float
    rules: list[RuleTime]


class Metric(TypedDict):
    """One metric of a policy: what its source answers, and how it fares."""

    policy: str
    metric: str
    type: str
    query: str
    seconds: float
    series: int | None
    coverage: float | None
    min_coverage: float
    youngest_seconds: float | None
    least: float | None
    most: float | None
    errors: list[str]
    warnings: list[str]


class PolicySource(running_process.Source):
    """A source of policies; `texts` are those that it has."""

    texts: int


class StatusFinding(TypedDict):
    """A finding about a text; without a line it is about the whole file."""

    severity: str
    code: str
    message: str
    file: NotRequired[str]
    line: NotRequired[int]
    column: NotRequired[int]
    help: NotRequired[str]


class Attempt(TypedDict):
    """The last text, and what became of it."""

    result: policy_status.Result
    time: str | None
    generation: int


class StatusMetric(running_process.MetricState):
    """The present state of a metric."""

    fresh: int | None
    nodes: int | None
    youngest_seconds: float | None
    oldest_seconds: float | None


class PolicyStatus(running_process.PolicyState):
    """A policy of the running scheduler: `diagnostics` are about the text, `now` and `metrics` about its present state."""

    mode: policy_status.Mode
    authority: str
    source: str
    key: str
    version: str | None
    active_since: str | None
    last_attempt: Attempt
    diagnostics: list[StatusFinding]
    omitted_diagnostics: int
    now: list[StatusFinding]
    metrics: list[StatusMetric]


class Status(TypedDict):
    """`wharf status --format json`, and `/policies` of a running scheduler."""

    sources: list[PolicySource]
    policies: list[PolicyStatus]


class Sample(TypedDict):
    """A measured value and its time, as RFC 3339 or as seconds since 1970; null or no time: that of the snapshot."""

    value: float
    time: NotRequired[str | float | None]


class Snapshot(TypedDict):
    """The file of `wharf snapshot`: a List as `kubectl get -o json` prints it, with the time of capture and samples of metrics."""

    api_version: Literal["v1"]
    kind: Literal["List"]
    items: list[Any]
    capture: NotRequired[Capture]
    metrics: NotRequired[dict[str, dict[str, float | Sample | None]]]


TYPES: Mapping[str, Any] = {
    "check": Check,
    "test": Test,
    "prove": list[Proof],
    "dry-run": DryRun,
    "diff": Diff,
    "capacity": Capacity,
    "drain": Drain,
    "rebalance": Rebalance,
    "tune": Tune,
    "explain-pod": ExplainPod,
    "explain-group": ExplainGroup,
    "explain-policy": ExplainPolicy,
    "replay": Replay,
    "bench": Bench,
    "signals": list[Metric],
    "status": Status,
    "snapshot": Snapshot,
}
"""The type of each answer."""


def files() -> dict[Path, Callable[[], str]]:
    """The functions that make the text of each schema."""
    return {FOLDER / f"{name}.json": lambda name=name: text(name) for name in (*TYPES, "configuration")}  # type: ignore[misc]


def text(name: str) -> str:
    """A schema as text."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def schema(name: str) -> dict[str, Any]:
    """A schema."""
    found = Settings.model_json_schema(by_alias=True) if name == "configuration" else _of_type(TYPES[name])
    if name == "snapshot":
        found["$defs"]["Snapshot"]["properties"]["items"]["items"] = _any_object()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{ADDRESS}/{name}.json"}
    return head | found


def _of_type(type_: Any) -> dict[str, Any]:
    (found,), definitions = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    whole: dict[str, Any] = _as_printed({**found, "$defs": dict(sorted(definitions.items()))})
    return whole


def _as_printed(part: Any) -> Any:
    """A part of a schema with the keys of properties as they are printed, also where a description names them."""
    if isinstance(part, list):
        return [_as_printed(each) for each in part]
    if not isinstance(part, dict):
        return part
    found = {key: _as_printed(value) for key, value in part.items()}
    if "properties" in part:
        found["properties"] = {camel_case(name): _as_printed(value) for name, value in part["properties"].items()}
        found["required"] = [camel_case(name) for name in part.get("required", ())]
        if "description" in part:
            found["description"] = re.sub(
                r"`(\w+)`",
                lambda name: f"`{camel_case(name[1])}`" if name[1] in part["properties"] else name[0],
                part["description"],
            )
    return found


def _any_object() -> dict[str, Any]:
    """An object of Kubernetes: which fields decisions read is in the documentation of Kubernetes."""
    kinds = sorted({kind for _, kind in objects.KINDS})
    named = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}}
    known = {"apiVersion": {"type": "string"}, "kind": {"type": "string", "examples": kinds}, "metadata": named}
    return {"type": "object", "properties": known, "required": ["apiVersion", "kind", "metadata"]}


# ── in tests ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def assert_holds(name: str, value: Any) -> None:
    """Fails if a value does not match its schema, or has a field that the schema does not declare."""
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    jsonschema.validate(value, found if name == "snapshot" else _closed(found), cls=jsonschema.Draft202012Validator)


def _closed(part: Any) -> Any:
    """A part of a schema that refuses fields which it does not declare."""
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {key: _closed(value) for key, value in part.items()}
    return inner | ({"additionalProperties": False} if "properties" in part and "additionalProperties" not in part else {})

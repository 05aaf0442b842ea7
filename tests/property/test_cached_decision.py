"""An updated evaluation equals a new one after any changes of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from tests.load_source import load_source
from tests.property import clusters
from tests.unit.framework import fleet
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.framework import chain, registry
from wharfinger.framework.evaluation import cycle
from wharfinger.framework.evaluation.decision import Decision
from wharfinger.framework.extension import FilterPlugin, ScorePlugin
from wharfinger.framework.prepared import OUTDATED, SKIP, DefaultNormalize, Reason, Rejected, Skip
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.report.render import render
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.columns.node_table import NodeTable
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.model.state.snapshot import Snapshot


def filtering(bits, reasons=("no",), **others):
    """A prepared filter with these reasons, of which only the first is resolvable."""
    return fleet.Told(bits, tuple(Reason(text, not number) for number, text in enumerate(reasons)), **others)


def changed_rows(snapshot, changes, *_):
    """The rows that changed, None for none."""
    return changes.rows if len(changes.rows) else None


class Cordoned(FilterPlugin):
    name = "Cordoned"
    filter_volatility = Volatility.STATIC

    def prepare_filter(self, attempt):
        return filtering(lambda snapshot, rows: 2 * snapshot.unschedulable[rows].astype(np.uint8), ("never", "cordoned"))


class Crowded(FilterPlugin):
    name = "Crowded"
    filter_volatility = Volatility.ROW

    def prepare_filter(self, attempt):
        def bits(snapshot, rows):
            crowd = snapshot.pod_count[rows]
            return ((crowd == 3) + 2 * (crowd == 2)).astype(np.uint8)

        return filtering(bits, ("three", "even"))


class Hours(FilterPlugin):
    """A TIMED filter: what it is prepared as, and the verdicts, change with the time, these also with the pods of the row."""

    name = "Hours"
    filter_volatility = Volatility.TIMED

    def prepare_filter(self, attempt):
        hour = int(attempt.snapshot.now) % 6
        if hour in {1, 2}:
            return SKIP if hour == 1 else Rejected((Reason("closed"),))
        nodes = frozenset(clusters.NODE_NAMES[:4]) if hour == 3 else None
        return filtering(lambda snapshot, rows: snapshot.pod_count[rows] > int(snapshot.now) % 4, ("busy hour",), nodes=nodes)


class Steady(FilterPlugin):
    """A TIMED filter that stays prepared while time passes, and knows which rows differ."""

    name = "Steady"
    filter_volatility = Volatility.TIMED

    def prepare_filter(self, attempt):
        def bits(snapshot, rows):
            return snapshot.pod_count[rows] > int(snapshot.now) % 5

        return filtering(bits, ("unsteady",), affected=lambda *_: slice(None))


class Moody(FilterPlugin):
    """Every answer that a filter plugin can give, depending on how many pods there are in all."""

    name = "Moody"

    def prepare_filter(self, attempt):
        total = int(attempt.snapshot.pod_count.sum())

        def above(nodes=None):
            return filtering(lambda snapshot, rows: snapshot.pod_count[rows] > total // 2, ("above the mean",), nodes=nodes)

        moods = [
            SKIP,
            above(),
            Rejected((Reason("bad day"),)),
            above(frozenset(clusters.NODE_NAMES[:2])),
            Rejected((Reason("never", resolvable=False),)),
        ]
        return moods[total % 7] if total % 7 < len(moods) else above()


class Patient(FilterPlugin):
    """A GLOBAL filter that knows which rows a change concerns, and whose reasons change with the pods."""

    name = "Patient"

    def prepare_filter(self, attempt):
        def few(snapshot):
            return bool(snapshot.pod_count.max(initial=0) < 2)

        was_few = few(attempt.snapshot)

        def affected(snapshot, changes):
            return changed_rows(snapshot, changes) if few(snapshot) == was_few else OUTDATED

        reasons = ("few" if was_few else "many",)
        return filtering(lambda snapshot, rows: (snapshot.pod_count[rows] > 3).astype(np.uint16), reasons, affected=affected)


class Napping(FilterPlugin):
    """A GLOBAL filter that skips while there are fewer than three pods, and reports this."""

    name = "Napping"

    def prepare_filter(self, attempt):
        def naps(snapshot):
            return bool(snapshot.pod_count.sum() < 3)

        def affected(snapshot, changes):
            return OUTDATED if naps(snapshot) else changed_rows(snapshot, changes)

        if naps(attempt.snapshot):
            return Skip(naps)
        return filtering(lambda snapshot, rows: snapshot.pod_count[rows] > 5, ("awake",), affected=affected)


class Disks(ScorePlugin):
    name = "Disks"
    score_volatility = Volatility.STATIC
    normalization = DefaultNormalize()

    def prepare_score(self, attempt, feasible):
        return fleet.Points(lambda snapshot, rows: 3 * (snapshot.label("disk")[rows] >= 0) + 2 * (snapshot.label(clusters.ZONE)[rows] >= 0))


class Emptier(ScorePlugin):
    name = "Emptier"
    score_volatility = Volatility.ROW
    normalization = DefaultNormalize(reverse=True)

    def prepare_score(self, attempt, feasible):
        return fleet.Points(lambda snapshot, rows: snapshot.pod_count[rows].copy())


class Points(ScorePlugin):
    name = "Points"
    score_volatility = Volatility.ROW
    default_weight = 7

    def prepare_score(self, attempt, feasible):
        return fleet.Points(lambda snapshot, rows: np.maximum(0, 100 - snapshot.nonzero[0][rows] // 50))


class Clock(ScorePlugin):
    """A TIMED score that has nothing to say now and then."""

    name = "Clock"
    score_volatility = Volatility.TIMED
    normalization = DefaultNormalize()

    def prepare_score(self, attempt, feasible):
        def raw(snapshot, rows):
            return snapshot.pod_count[rows] * (int(snapshot.now) % 3) + (snapshot.label("disk")[rows] >= 0)

        return SKIP if int(attempt.snapshot.now) % 5 == 0 else fleet.Points(raw)


class Crowds(ScorePlugin):
    """A GLOBAL score that depends on the feasible set and sometimes has nothing to say."""

    name = "Crowds"
    normalization = DefaultNormalize()

    def prepare_score(self, attempt, feasible):
        count = int(np.count_nonzero(feasible))
        return SKIP if count == 3 else fleet.Points(lambda snapshot, rows: snapshot.pod_count[rows] * count)


class Neighbours(ScorePlugin):
    """A GLOBAL score that knows when nothing has changed for it."""

    name = "Neighbours"

    def prepare_score(self, attempt, feasible):
        def raw(snapshot, rows):
            found = snapshot.selection("app a", lambda other: other.labels.get("app") == "a").in_domain(clusters.ZONE)
            return np.clip(np.nan_to_num(found, nan=0.0)[rows], 0, 100).astype(np.int64)

        def affected(snapshot, changes, *_):
            return slice(None) if len(changes.rows) else None

        return fleet.Points(raw, affected=affected)


class Zones(ScorePlugin):
    """A GLOBAL score that depends on zones alone, and while there are few pods on nothing."""

    name = "Zones"
    normalization = DefaultNormalize()

    def prepare_score(self, attempt, feasible):
        if attempt.snapshot.pod_count.sum() < 2:
            return SKIP

        def raw(snapshot, rows):
            found = snapshot.selection("app a", lambda other: other.labels.get("app") == "a").in_domain(clusters.ZONE)
            return np.nan_to_num(found, nan=0.0)[rows].astype(np.int64)

        return fleet.Points(raw, domains=(clusters.ZONE,))


LOCAL = [Cordoned, Crowded, Disks, Emptier, Points]
TIMED = [Hours, Steady, Clock]
GLOBAL = [Patient, Napping, Crowds, Neighbours, Zones]


def chain_of(plugins: list[Any]) -> chain.Chain:
    return chain.assemble(registry=registry.Registry([("this test", plugin) for plugin in plugins]))


POLICIES = [
    """
    policy "web"
    let siblings = pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "")
    let here = count(siblings, on: node)
    filter few { require here < 3 else "{here} already" }
    filter roomy { require ratio(node.free.memory, node.allocatable.memory) >= 20% else "full" on missing pass }
    filter zoned when pod.priority >= 0 { require node.labels["disk"] == "ssd" else "slow" on missing pass }
    filter cool { require load + ratio(unseen_requests(load).cpu, node.capacity.cpu) <= 80% else "hot" on missing pass }
    filter spreadable { require count(siblings, within: "topology.kubernetes.io/zone") < 7 else "zone is full" on missing pass }
    score zones weight 5 = spread(siblings, by: "topology.kubernetes.io/zone") on missing neutral
    score nodes weight 0.3 = -here normalize minmax
    score most weight 1.7 = node.pod_count normalize max
    score load weight 2 = curve(load, 0% -> 100, 100% -> 0) on missing neutral
    score filled weight 0.1 tier 2 = curve(ratio(node.requested.cpu, node.allocatable.cpu), 0% -> 0, 100% -> 100) on missing skip
    prefer ssd tier 2 when node.pod_count > 1 = node.labels["disk"] == "ssd" on missing 3
    metric load: percent = prometheus("x", node: "node", refresh: 1s, max_age: 5s, min_coverage: 30%)
    tie_break node.pod_count asc, node.free.cpu desc
    quantum 5
    base kubernetes { ImageLocality weight 3 }
    """,
    """
    policy "named"
    for pods where pod.name != "other"
    filter unlucky { reject pod.name == "asker" and node.pod_count == 1 else "{pod.name} wants no company" }
    score age = curve(age(node.created), 0s -> 0, 60s -> 100) on missing 20
    """,
    """
    policy "young"
    for pods where age(pod.created) < 8s or pod.name == "sibling 1"
    filter alone { require node.pod_count < 2 else "no company for the young" }
    score empty weight 9 = -node.pod_count normalize minmax
    preemption { never_evict when age(it.created) < 6s on missing keep }
    """,
    """
    policy "waits"
    for pods where pod.priority < 0 and age(pod.created) < 12s
    filter later when age(pod.created) < 9s { reject node.pod_count > 0 else "{pod.name} waits" }
    tie_break node.labels["disk"] asc, node.name desc, semver(node.labels["disk"]) asc
    """,
    """
    policy "clock"
    for pods where weekday(tz: "Asia/Tokyo") != "fri" or hash(pod.name) < 50%
    let late = time_of_day(tz: "UTC") >= 1012s
    let days = pods where (it.labels["app"] ?? "") == (if late then "a" else "b") or weekday(tz: "UTC") in it.images
    filter early { reject late and has_taint(node, "spot") else "{weekday(tz: 'UTC')}" }
    filter asked { require untolerated_taints(pod, node) < 2 and node_affinity_matches(pod) else "taints" }
    score calm weight 4 = -count(days, on: node) normalize minmax
    """,
    """
    policy "points"
    for pods where pod.namespace != "none"
    let liked = node_affinity_points() + 2 * pod_affinity_points()
    score liked weight 3 = liked / 3
    score spread weight 2 when node.pod_count < 3 = topology_spread_points() normalize minmax
    score marked tier 2 = taint_points() - node.pod_count normalize max
    filter few { require node.pod_count < 4 and not node.unschedulable else "no" }
    """,
    """
    policy "tenants"
    let theirs = pods where it.namespace_labels["tier"] == pod.namespace_labels["tier"] or it.namespace_labels["tier"] == "a"
    filter mixed when has(pod.namespace_labels["tier"]) { require count(theirs, on: node) < 3 else "full" }
    score together = count(theirs, within: "topology.kubernetes.io/zone") normalize max on missing 7
    prefer gold weight 3 = pod.namespace_labels["tier"] in ["a", "b"] on missing skip
    """,
    """
    policy "teams"
    for pods where pod.namespace_labels["tier"] == "a" or (pod.namespace_labels matches "tier=b" and hash(pod.name) < 50%)
    base kubernetes { NodeResourcesBalancedAllocation weight 5 }
    filter few { require node.pod_count < 3 else "{pod.namespace_labels['tier']}" on missing pass }
    score apart weight 3 = node.pod_count normalize minmax
    tie_break node.name desc
    """,
]


def compiled(text: str) -> CompiledPolicy:
    diagnostics = Diagnostics()
    policy = load_source(Source(name="test.policy", text=text), CATALOGUE, diagnostics)
    assert policy is not None, render(diagnostics, format="plain")
    return compile_policy(policy)


CHAINS = [
    chain_of(LOCAL),
    chain_of([*LOCAL, *TIMED]),
    chain_of([*LOCAL, *GLOBAL]),
    chain_of([*LOCAL, *TIMED, *GLOBAL, Moody]),
    chain.assemble(),
    chain.assemble([compiled(text) for text in POLICIES]),
]


def as_values(decision: Decision) -> dict[str, Any]:
    """All values of a decision, by name."""
    return {
        "outcome": (decision.node, decision.feasible, decision.n_nodes, decision.ties, decision.message, decision.totals, decision.margin),
        "filters": decision.diagnosis.filters,
        "unresolvable": decision.diagnosis.unresolvable.tolist(),
        "feasible": decision.feasible_nodes(),
        "ranking": decision.ranking(9),
        "rejections": {name: decision.rejections_at(name) for name in decision.snapshot.names},
        "scores": {name: decision.scores_at(name) for name in decision.snapshot.names} if decision.feasible else {},
    }


def siblings(pod: objects.Pod) -> Iterator[objects.Pod]:
    """Pods of the same template that are others and came at other times."""
    for number in range(2):
        metadata = replace(
            pod.metadata, name=f"sibling {number}", uid=f"uid-of-sibling-{number}", creation_timestamp=clusters.at(1_000 + 4 * number)
        )
        yield replace(pod, metadata=metadata)


def assert_equal_filters(decider: cycle.Decider, snapshot: Snapshot, pod: PodView) -> None:
    """Raise if the filters of a decider that remembers do not say what those of a new one say."""
    remembered = decider.filtering(snapshot, pod)
    fresh = cycle.Decider(decider.chain).filtering(snapshot, pod)
    assert remembered.count == fresh.count
    assert np.array_equal(remembered.feasible, fresh.feasible)


class Remembering(RuleBasedStateMachine):
    """Any change to the cluster, then the same questions to one that remembers and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.deciders = [cycle.Decider(each) for each in CHAINS]
        self.askers: list[PodView] = []
        self.started = 0
        self.now = 1_005.0
        self.filters_only = 0  # changes of the cluster after which only the filters are asked

    def snapshot(self) -> Snapshot:
        """The cluster at the present time."""
        return self.state.snapshot(self.now)

    @initialize(
        pods=st.lists(clusters.pods(st.just("asker")), min_size=1, max_size=2), nodes=st.lists(clusters.nodes(), min_size=3, max_size=8)
    )
    def begin(self, pods: list[objects.Pod], nodes: list[objects.Node]) -> None:
        self.askers = [PodView(each) for pod in pods for each in (pod, *siblings(pod))]
        for node in nodes:
            self.state.add_node(node)

    @rule(node=clusters.nodes())
    def add_or_update_node(self, node: objects.Node) -> None:
        self.state.add_node(node)

    @precondition(lambda self: self.snapshot().n_nodes)
    @rule(draw=st.data())
    def update_node(self, draw: st.DataObject) -> None:
        names = sorted(self.snapshot().names)
        self.state.add_node(draw.draw(clusters.nodes(st.sampled_from(names))))

    @rule(name=st.sampled_from(clusters.NODE_NAMES))
    def remove_node(self, name: str) -> None:
        self.state.remove_node(name)

    @precondition(lambda self: self.snapshot().n_nodes)
    @rule(draw=st.data(), count=st.integers(1, 3))
    def start_pods(self, draw: st.DataObject, count: int) -> None:
        name = draw.draw(st.sampled_from(sorted(self.snapshot().names)))
        for _ in range(count):
            self.started += 1
            self.state.add_pod(draw.draw(clusters.pods(st.just(f"started-{self.started}"), node_name=name)))

    @rule(pods=st.lists(st.sampled_from(clusters.NODE_NAMES).flatmap(lambda name: clusters.pods(node_name=name)), min_size=1, max_size=4))
    def add_pods(self, pods: list[objects.Pod]) -> None:
        for pod in pods:
            self.state.add_pod(pod)

    @rule(pod=clusters.pods())
    def remove_pod(self, pod: objects.Pod) -> None:
        self.state.remove_pod(pod)

    @rule(pod=clusters.pods())
    def place(self, pod: objects.Pod) -> None:
        view = PodView(pod)
        decision = self.deciders[0].decide(self.snapshot(), view)
        if decision.node is not None and not self.state.is_placed(view.uid):
            self.state.assume(view, decision.node)

    @rule(
        samples=st.dictionaries(
            st.sampled_from(clusters.NODE_NAMES), st.tuples(st.sampled_from([0.0, 0.5, 0.9]), st.integers(1_000, 1_010))
        )
    )
    def measure(self, samples: dict[str, tuple[float, float]]) -> None:
        self.state.set_metric("load", {node: (value, float(at)) for node, (value, at) in samples.items()})

    @rule(namespace=st.sampled_from(["default", "web"]), labels=st.sampled_from([{}, {"tier": "a"}, {"tier": "b"}]))
    def label_namespace(self, namespace: str, labels: dict[str, str]) -> None:
        self.state.put(objects.Namespace(metadata=objects.ObjectMeta(name=namespace, labels=labels)))

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(changes=st.integers(1, 4))
    def ask_only_filters(self, changes: int) -> None:
        self.filters_only = changes

    @invariant()
    def both_say_the_same(self) -> None:
        self.filters_only -= self.filters_only > 0
        for decider in self.deciders:
            for pod in self.askers:
                snapshot = self.snapshot()
                if self.filters_only:
                    assert_equal_filters(decider, snapshot, pod)
                    continue
                assert as_values(decider.decide(snapshot, pod)) == as_values(cycle.decide(decider.chain, snapshot, pod))


TestRemembering = Remembering.TestCase
TestRemembering.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


class Renumbering(Remembering):
    """The same where texts and taint sets get new numbers at nearly every change."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(NodeTable, "compact", compact_always)

    def teardown(self) -> None:
        self.patch.undo()


def compact_always(self: NodeTable) -> None:
    """Renumber strings and taints at every call, also while few codes are unused."""
    self._renumber_strings()
    self._renumber_taints()


TestRenumbering = Renumbering.TestCase
TestRenumbering.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)

"""The outcome of a scheduling cycle, with scores and rejections, as a value.

The decision itself holds the values that cost nothing. The rest (rejections, every score at every node, the runner-up) is read on demand
from the evaluation that it came from. Once that evaluation has been updated, these reads raise `StaleSnapshot`. A decision made by
`cycle.decide` has its own evaluation. One made by a `Decider` shares it with the next pod of its template: read its details before the next
decision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.errors import StaleSnapshot, UnknownObject
from wharfinger.framework.evaluation.diagnosis import Diagnosis
from wharfinger.framework.evaluation.kept_result import Evaluation
from wharfinger.framework.extension import DevicePlugin
from wharfinger.framework.pod_devices import PodDevice
from wharfinger.framework.prepared import ALL, Attempt, ClaimAllocation
from wharfinger.framework.rules.score_slot import Columns, PluginPoints, ScoreSlot
from wharfinger.language.report.wording import count

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model import objects
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class ScorePart(Struct, frozen=True, kw_only=True):
    """One score at one node: `raw` (None where a policy's value is missing or its rule does not apply), the points, and weight × points."""

    name: str
    tier: int
    weight: float
    raw: float | None
    points: float
    weighted: float


class Ranked(Struct, frozen=True, kw_only=True):
    """A feasible node and its total in each tier."""

    node: str
    totals: tuple[float, ...]


class Decision(Struct, frozen=True, kw_only=True, eq=False):
    """The node chosen for a pod, or the reason why there is none.

    `node` is None if none of the `n_nodes` is feasible; `message` is then the reason in kube-scheduler's words ("" otherwise). `ties` is
    the number of nodes that were equal in every tier and tie break (the stable hash chose among them). `nominated` and `victims` are
    PostFilter's, and so are a claim to `deallocate` or to `delete` so that another attempt may succeed. With `while_changing`, the cluster
    changed during its search: another search on the same snapshot may answer otherwise. `group` is the group whose search decided about the
    node; "" for a pod that was decided about alone.

    `claims` is what Reserve has to take for the pod on its node: the allocation of each claim that has none, in the pod's order. If an
    error ended the cycle, `aborted` has its text by node, for the first nodes by name; `message` is one of them, and nothing about the
    nodes is final.
    """

    pod: PodView
    node: str | None
    row: int | None
    n_nodes: int
    feasible: int
    ties: int
    message: str
    chain: Chain
    snapshot_revision: int
    nominated: str | None = None
    victims: tuple[PodView, ...] = ()
    while_changing: bool = False
    group: str = ""
    claims: tuple[ClaimAllocation, ...] = ()
    aborted: Mapping[str, str] = {}
    deallocate: objects.ResourceClaim | None = None
    delete: objects.ResourceClaim | None = None
    evaluation: Evaluation
    version: int
    snapshot: Snapshot

    def __str__(self) -> str:
        if self.node is None:
            return f"{self.pod.key}: {self.message}"
        equals = f", {self.ties} equally good" if self.ties > 1 else ""
        return f"{self.pod.key} → {self.node} ({self.feasible} of {count(self.n_nodes, 'node')} feasible{equals})"

    @property
    def assigned(self) -> PodView:
        """The pod as it is to be assumed and bound: with the annotations that plugins choose for it on its node."""
        return self.pod if self.row is None else self.chain.assigned(self._attempt, self.row)

    @property
    def devices(self) -> tuple[PodDevice, ...]:
        """The devices that the pod gets on its node, in the order of its claims and their requests; empty if it gets none."""
        if self.row is None:
            return ()
        return tuple(each for plugin in self.chain.choosing_devices for each in plugin.pod_devices(self._attempt, self.row, self.claims))

    def shortage(self, plugin: str, rows: NDArray[np.intp]) -> tuple[str, ...]:
        """Lines of the plugin of that name about the devices of some rows; empty if it does not choose devices."""
        found = self.chain.plugin(plugin)
        self._current()
        return found.shortage(self._attempt, rows) if isinstance(found, DevicePlugin) and len(rows) else ()

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that govern the pod, sorted."""
        return self.evaluation.pod_rules.policies

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about contradictions between the governing policies."""
        return self.evaluation.pod_rules.notes

    @property
    def policy_revision(self) -> str:
        """SHA-256 over the policy set of the chain."""
        return self.chain.policy_revision

    @property
    def diagnosis(self) -> Diagnosis:
        """The filters' verdicts on every node."""
        return Diagnosis(self._current().filtering, self.n_nodes)

    @property
    def tiers(self) -> tuple[int, ...]:
        """The tiers whose totals are compared, in order."""
        return tuple(tier.tier for tier in self.evaluation.scoring.tiers)

    @property
    def totals(self) -> tuple[float, ...]:
        """The chosen node's total in each tier; empty when unschedulable."""
        return () if self.row is None else self._totals([self.row])[0]

    @property
    def plugin_points(self) -> Columns:
        """The points of Kubernetes' scores that rules of policies read, by plugin, each `(n_nodes,)`; empty if none does."""
        found = self._current().shared.made(PluginPoints)
        return {} if found is None else found.columns

    @property
    def runner_up(self) -> Ranked | None:
        """The best other feasible node; None if there is none."""
        others = [ranked for ranked in self.ranking(2) if ranked.node != self.node]
        return others[0] if others else None

    @property
    def margin(self) -> float | None:
        """The first tier's total minus the runner-up's; None if no other node is feasible."""
        second = self.runner_up
        return None if second is None else self.totals[0] - second.totals[0]

    def ranking(self, limit: int) -> tuple[Ranked, ...]:
        """At most `limit` feasible nodes, best first; the chosen one is first, other equal nodes are sorted by name."""
        rows = self.ranked_rows(limit)
        names = self.snapshot.names
        return tuple(Ranked(node=names[row], totals=totals) for row, totals in zip(rows, self._totals(rows), strict=True))

    def ranked_rows(self, limit: int) -> list[int]:
        """The rows of `ranking`."""
        if self.row is None:
            return []
        tiers = self._current().scoring.tiers
        rows = np.flatnonzero(self.evaluation.filtering.feasible)
        keys = [tier.key(ALL) for tier in tiers]
        first = keys[0][rows]
        most = min(limit, len(rows))
        rows = rows[first >= np.partition(first, -most)[-most]]
        names = self.snapshot.names
        listed = rows.tolist()
        by_key = [(-key[rows]).tolist() for key in keys]
        ordered = sorted(zip(*by_key, (rows != self.row).tolist(), [names[row] for row in listed], listed, strict=True))
        return [row for *_, row in ordered[:limit]]

    @property
    def equal_nodes(self) -> tuple[str, ...]:
        """The nodes that are best in every tier and tie break, the chosen one among them, by name; empty when unschedulable."""
        if self.row is None:
            return ()
        rows = self._current().equal_rows(self.pod, self.snapshot).tolist() if self.ties > 1 else [self.row]
        return tuple(sorted(self.snapshot.names[row] for row in rows))

    def scores_at(self, node: str) -> tuple[ScorePart, ...]:
        """Every score at a feasible node, in summing order; empty if the node is not feasible. `UnknownObject` for an unknown name."""
        evaluation, row = self._current(), self._row(node)
        if not evaluation.filtering.feasible[row]:
            return ()
        return tuple(_part(slot, row) for slot in evaluation.scoring.slots if not slot.skipped)

    def added_at(self, one: int, other: int) -> dict[str, tuple[int, float, float]]:
        """(tier, weight × points at one row, and at another) of every score, by name; empty if one of the rows is not feasible.

        Less work than `scores_at`.
        """
        evaluation = self._current()
        feasible = evaluation.filtering.feasible
        if not (feasible.item(one) and feasible.item(other)):
            return {}
        return {
            slot.plugin.name: (slot.term.tier, slot.weight * slot.points_at(one), slot.weight * slot.points_at(other))
            for slot in evaluation.scoring.slots
            if not slot.skipped
        }

    def rejections_at(self, node: str) -> tuple[str, ...]:
        """`plugin: reason` for every rejection of a node; empty if it is feasible."""
        return tuple(f"{found.plugin}: {reason}" for found in self.diagnosis.at(self._row(node)) for reason in found.reasons)

    def feasible_nodes(self) -> tuple[str, ...]:
        """The names of all feasible nodes, sorted."""
        names = self.snapshot.names
        rows = np.flatnonzero(self._current().filtering.feasible).tolist() if not self.aborted else ()
        return tuple(sorted(names[row] for row in rows))

    def claims_at(self, node: str) -> tuple[ClaimAllocation, ...]:
        """The allocations for the pod's claims on a feasible node; empty if the node is not feasible."""
        evaluation, row = self._current(), self._row(node)
        if self.aborted or not evaluation.filtering.feasible[row]:
            return ()
        return evaluation.filtering.allocations(self._attempt, row)

    @property
    def _attempt(self) -> Attempt:
        return Attempt(self.pod, self.snapshot, self.evaluation.shared)

    def _row(self, node: str) -> int:
        row = self.snapshot.row(node)
        if row is None:
            raise UnknownObject(f"there is no node {node}")
        return row

    def _totals(self, rows: Sequence[int]) -> list[tuple[float, ...]]:
        """The totals by tier of each row."""
        index = np.array(rows, np.intp)
        by_tier = [tier.total_of(index).tolist() for tier in self._current().scoring.tiers]
        return list(zip(*by_tier, strict=True))

    def _current(self) -> Evaluation:
        if self.evaluation.version != self.version:
            raise StaleSnapshot(
                f"the decision about {self.pod.key} was made at revision {self.snapshot_revision} and what it rests on has been "
                "brought up to date since; read its details before the next decision, or use decide()"
            )
        return self.evaluation


def _part(slot: ScoreSlot, row: int) -> ScorePart:
    raw, points = slot.at(row)
    return ScorePart(
        name=slot.plugin.name,
        tier=slot.term.tier,
        weight=slot.weight,
        raw=raw if math.isfinite(raw) else None,
        points=points,
        weighted=slot.weight * points,
    )

"""The rules of members about each other: apart, near, and evenly spread.

They are required pod affinity and anti-affinity between members and to placed pods, and hard topology spread over members. Requirements
that domains cannot express are left out, and `exact` is False then. They could only forbid more.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from wharfinger.framework.plugins.pods import affinity_terms
from wharfinger.framework.plugins.pods.spread_counts import Constraint, Eligible

if TYPE_CHECKING:
    from wharfinger.framework.plugins.pods.affinity_terms import Term
    from wharfinger.framework.prepared import Mask
    from wharfinger.groups.exact.member_classes import ClassAxis, MemberClass
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.snapshot import Snapshot


class RequiredAffinity(Struct, frozen=True):
    """Required affinity that some classes have: a domain of `key` with one of `requiring` must have a pod that their terms match.

    Such a pod is there (`there`, by domain), of `granting` classes, or, if there is none anywhere, the first of `starting` on its axis.
    """

    key: str
    requiring: tuple[int, ...]
    granting: tuple[int, ...]
    starting: tuple[int, ...]
    there: Mask
    axis: int


class SpreadConstraint(Struct, frozen=True):
    """A hard spread constraint of the classes that it counts: `counts` and `eligible` by domain; `fixed`: the lowest count counts as 0."""

    key: str
    classes: tuple[int, ...]
    max_skew: int
    counts: NDArray[np.float64]
    eligible: Mask
    fixed: bool


class MemberRules:
    """The rules of the classes of some axes: which are kept apart, by topology key, `affinities` and `spreads`.

    Nodes on which a rule cannot hold are closed in the requirements of the axes. `others` are classes of the group that no axis counts: a
    rule that their members may fulfil or break is left out.
    """

    def __init__(self, snapshot: Snapshot, axes: Sequence[ClassAxis], others: Sequence[MemberClass] = ()) -> None:
        self.exact = True
        self.apart: dict[str, set[tuple[int, int]]] = {}
        self.affinities: list[RequiredAffinity] = []
        self.spreads: list[SpreadConstraint] = []
        self._snapshot = snapshot
        self._axes = axes
        self._others = others
        self._requirements = [axis.requirements for axis in axes]
        self._read_terms()
        self._read_spread()

    @property
    def keys(self) -> list[str]:
        """The topology keys that the rules name, sorted."""
        return sorted({*self.apart, *(affinity.key for affinity in self.affinities), *(each.key for each in self.spreads)})

    @property
    def open_axes(self) -> frozenset[int]:
        """The axes on which fewer members are not always possible too (`packing`)."""
        return frozenset(self._open_axes())

    def _open_axes(self) -> Iterator[int]:
        for affinity in self.affinities:
            yield affinity.axis
            yield from affinity.granting
            if set(affinity.requiring) - set(affinity.starting):
                yield from affinity.starting
        for each in self.spreads:
            yield from each.classes

    def _read_terms(self) -> None:
        alone = [number for number, each in enumerate(self._axes) if each.alone]
        for left, right in itertools.product(alone, repeat=2):
            mine, other = self._requirements[left], self._axes[right].pod
            if self._requirements[right].affinity and mine.affinity:
                for term in mine.terms.required_anti:
                    if term.matches(other, {}):
                        self.apart.setdefault(term.topology_key, set()).update({(left, right), (right, left)})
        by_terms: dict[tuple[Term, ...], list[int]] = {}
        for number, requirements in enumerate(self._requirements):
            if requirements.terms.required:
                by_terms.setdefault(requirements.terms.required, []).append(number)
        for required, requiring in by_terms.items():
            if any(affinity_terms.matches_all(required, each.pod) for each in self._others):
                self.exact = False
                continue
            self.affinities.append(self._affinity(requiring, len(self._axes) + len(self.affinities)))

    def _affinity(self, requiring: Sequence[int], axis: int) -> RequiredAffinity:
        snapshot, requirements = self._snapshot, self._requirements[requiring[0]]
        terms = requirements.terms.required
        keys = sorted({term.topology_key for term in terms})
        key = max(keys, key=lambda each: snapshot.topology(each).n_domains)  # the narrowest: what is there is in the wider ones too
        granting = [n for n, each in enumerate(self._axes) if each.any(partial(affinity_terms.matches_all, terms))]
        nowhere = np.zeros(snapshot.topology(key).n_domains + 1, np.bool_)
        first = requirements.affinity_filter is None or not requirements.affinity_filter.has_wanted
        for each in keys:
            present = snapshot.topology(each).ids >= 0
            for number in requiring:
                self._requirements[number].open_rows &= present
        return RequiredAffinity(
            key=key,
            requiring=tuple(requiring),
            granting=tuple(n for n in granting if n not in requiring),
            starting=tuple(n for n in granting if n in requiring) if first else (),
            there=nowhere if requirements.affinity_filter is None else requirements.affinity_filter.wanted_in(key).copy(),
            axis=axis,
        )

    def _read_spread(self) -> None:
        done: set[Hashable] = set()
        for number, requirements in enumerate(self._requirements):
            if requirements.spread is None:
                continue
            for constraint, among in zip(requirements.spread.constraints, requirements.spread.eligible, strict=True):
                identity = (constraint, among.key, self._axes[number].pod.namespace)
                requirements.open_rows &= self._snapshot.topology(constraint.topology_key).ids >= 0
                if identity not in done:
                    done.add(identity)
                    self._read_constraint(self._axes[number].pod, constraint, among)

    def _read_constraint(self, pod: PodView, constraint: Constraint, among: Eligible) -> None:
        """Keep a constraint if exactly the classes that have it are counted by it, and only on eligible nodes."""
        counts_for = partial(constraint.counts, namespace=pod.namespace)
        counted = [n for n, each in enumerate(self._axes) if each.any(counts_for)]
        having = [n for n, each in enumerate(self._axes) if each.pod.namespace == pod.namespace and self._has(n, constraint, among)]
        present = self._snapshot.topology(constraint.topology_key).ids >= 0
        mask = among.mask
        inside = mask is None or all(not (self._requirements[n].open_rows & present & ~mask).any() for n in counted)
        if counted != having or not inside or any(counts_for(each.pod) for each in self._others):
            self.exact = False
            return
        selection = constraint.selection(self._snapshot, pod.namespace)
        counts = selection.domains(constraint.topology_key, mask_key=among.key, mask=mask)
        eligible = counts.nodes > 0 if counts.mask is not None else np.ones(len(counts.counts), np.bool_)
        fixed = int(np.count_nonzero(eligible)) < constraint.min_domains
        self.spreads.append(
            SpreadConstraint(constraint.topology_key, tuple(counted), constraint.max_skew, counts.counts.copy(), eligible, fixed)
        )

    def _has(self, number: int, constraint: Constraint, among: Eligible) -> bool:
        spread = self._requirements[number].spread
        if spread is None:
            return False
        return any(c == constraint and e.key == among.key for c, e in zip(spread.constraints, spread.eligible, strict=True))

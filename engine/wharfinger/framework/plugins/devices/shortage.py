"""Explains why claims get no devices: a text with the number of devices that meet each condition of a request.

The conditions are those of the search, in the order in which people look for a cause: class, selectors, free, taints, counters, capacity.
Each counts among the devices that meet those before it, so the first one that leaves too few is the reason. Of one node the devices that
fail a condition are named. Where every request could be met alone, what they share keeps them apart: a constraint, or the devices
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from wharfinger.framework.plugins.devices.cel.selector import selected
from wharfinger.framework.plugins.devices.requests import Alternative, ClaimDemand, PoolCode
from wharfinger.framework.plugins.devices.search import Place, Search
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.devices.pools import NodePools
from wharfinger.model.objects import matching
from wharfinger.model.state.device_states import UsageKey

MAX_NAMED = 4
MAX_SELECTOR_LENGTH = 100


class _Condition(Struct):
    """`kept` counts the devices that meet this and all earlier conditions; `lost` names those that fail here, with the cause."""

    one: str
    many: str
    kept: int = 0
    lost: list[str] = field(default_factory=list)
    shown: bool = False


class DevicesByCondition(Struct):
    """The devices of some nodes that meet the conditions of one alternative, counted after each condition.

    `alike` is the largest number of those left that have one value, by the attribute that must match; of use for one node only.
    """

    alternative: Alternative
    devices: int = 0
    pools: Counter[str] = field(default_factory=Counter)
    conditions: list[_Condition] = field(default_factory=list)
    alike: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, other: DevicesByCondition) -> DevicesByCondition:
        """An empty one for the same alternative."""
        return cls(
            other.alternative, conditions=[_Condition(each.one, each.many, lost=each.lost) for each in other.conditions], alike=other.alike
        )

    def add(self, other: DevicesByCondition, times: int) -> None:
        """Add the devices of `times` further nodes, which are equal to those of `other`."""
        self.devices += other.devices * times
        for said, count in other.pools.items():
            self.pools[said] += count * times
        for own, more in zip(self.conditions, other.conditions, strict=True):
            own.kept += more.kept * times
            own.shown |= more.shown

    @property
    def left(self) -> int:
        """The number of devices that meet all conditions."""
        return self.conditions[-1].kept

    @property
    def enough(self) -> bool:
        """True if devices are left for the alternative, all that match if it wants all; of one node only."""
        if not self.alternative.every:
            return self.left >= self.alternative.count
        matching = self.conditions[len(self.alternative.wanted.selectors)].kept
        return self.left > 0 and self.conditions[-2].kept == matching  # it does without those that have too little capacity

    def text(self, claim: str, nodes: int) -> str:
        """One line; devices are named if it is about one node."""
        wanted = "all devices" if self.alternative.every else wording.count(self.alternative.count, "device")
        parts = []
        for condition in self.conditions:
            if condition.shown:
                named = f" (not {wording.capped(condition.lost, MAX_NAMED)})" if nodes == 1 and condition.lost else ""
                parts.append(f"{condition.kept:,} {condition.one if condition.kept == 1 else condition.many}{named}")
            if not condition.kept:
                break
        parts += [f"{count:,} {said}" for said, count in self.pools.items()]
        parts += [f"at most {most:,} with the same {name}" for name, most in self.alike.items()] if nodes == 1 and self.enough else []
        where = f" on {nodes:,} nodes" if nodes > 1 else ""
        return f"{claim}request {self.alternative.reference} wants {wanted}: of {self.devices:,}{where}, {', '.join(parts)}"


def devices_by_condition(
    demand: ClaimDemand, pools: NodePools, codes: Sequence[PoolCode], usage: Sequence[UsageKey]
) -> list[DevicesByCondition]:
    """The devices of a node that meet the conditions of each alternative; `usage` is the allocated part of each pool."""
    search = Search(demand, codes, pools.groups, usage, None)
    return [_count_by_condition(alternative, demand, pools, codes, search) for alternative in demand.alternatives]


def _count_by_condition(
    alternative: Alternative, demand: ClaimDemand, pools: NodePools, codes: Sequence[PoolCode], search: Search
) -> DevicesByCondition:
    found = DevicesByCondition(alternative)
    left: list[Place] = []
    for number, (pool, code) in enumerate(zip(pools.pools, codes, strict=True)):
        if pool.incomplete or pool.invalid:
            found.pools["pool is not complete yet" if pool.incomplete else "pool is invalid"] += 1
        reachable = code.reachable
        left += [(number, position) for position in range(len(code.codes)) if reachable is None or reachable[position]]
    found.devices = len(left)
    for condition, lacks, always in _conditions(alternative, demand, pools, search):
        kept = []
        for place in left:
            why = lacks(place)
            if why is None:
                kept.append(place)
            else:
                pool = pools.pools[place[0]]
                condition.lost.append(pool.devices[place[1]].name + why)
        condition.kept, condition.shown = len(kept), always or len(kept) < len(left)
        left = kept
        found.conditions.append(condition)
    for constraint in demand.claims[alternative.claim].constraints:
        if not constraint.distinct and constraint.concerns(alternative):
            values = Counter(codes[number].codes[position].values[constraint.number] for number, position in left)
            values.pop(None, None)
            found.alike[constraint.attribute] = max(values.values(), default=0)
    return found


Lacks = Callable[[Place], str | None]
"""The reason why a device does not meet a condition, \"\" if the condition is enough; None for a device that meets it."""


def _conditions(
    alternative: Alternative, demand: ClaimDemand, pools: NodePools, search: Search
) -> Iterator[tuple[_Condition, Lacks, bool]]:
    """The conditions of an alternative in order, each with its test, and True if it is shown although all devices meet it."""

    def meets(test: Callable[[int, int], bool]) -> Lacks:
        return lambda place: None if test(*place) else ""

    def tainted(place: Place) -> str | None:
        taints = matching.untolerated(alternative.wanted.tolerations, pools.pools[place[0]].devices[place[1]].taints)
        return f": {', '.join(map(matching.taint_text, taints))}" if taints else None

    def selected_by(selectors: Sequence[objects.DeviceSelector]) -> Lacks:
        def lacks(place: Place) -> str | None:
            content = pools.pools[place[0]].contents[place[1]]
            answers = (selected(selector, content, demand.cost_budget) for selector in selectors)
            wrong = next((answer for answer in answers if answer is not True), None)
            return None if wrong is None else f": {wrong}" if isinstance(wrong, str) else ""

        return lacks

    name = alternative.device_class.metadata.name
    yield _Condition(f"is of class {name}", f"are of class {name}"), selected_by(alternative.device_class.spec.selectors), True
    for selector in alternative.wanted.selectors:
        expression = " ".join((selector.cel.expression if selector.cel else "").split())
        shown = expression if len(expression) <= MAX_SELECTOR_LENGTH else f"{expression[: MAX_SELECTOR_LENGTH - 1]}…"
        yield _Condition(f"matches `{shown}`", f"match `{shown}`"), selected_by([selector]), True
    yield _Condition("is free", "are free"), meets(lambda number, position: not search.occupied(alternative, number, position)), True
    yield _Condition("has no taint in the way", "have no taint in the way"), tainted, False
    yield _Condition("has its counters left", "have their counters left"), meets(search.has_counters), False
    room = meets(lambda number, position: search.has_capacity(alternative, number, position))
    yield _Condition("has the capacity", "have the capacity"), room, False


def lines(found: Sequence[DevicesByCondition], demand: ClaimDemand, names: Sequence[str], nodes: int, *, rejected: bool) -> Iterator[str]:
    """A line for each alternative, and one more if a node is `rejected` although each is met alone; `names` are those of the claims."""
    for matched in found:
        yield matched.text(f"claim {names[matched.alternative.claim]}, " if len(names) > 1 else "", nodes)
    alone = {matched.alternative.number for matched in found if matched.enough}
    met = all(
        any(alternative.number in alone for alternative in request.alternatives) for claim in demand.claims for request in claim.requests
    )
    if nodes == 1 and met and rejected:
        yield "each request could be met alone, and not all of them together with their constraints"

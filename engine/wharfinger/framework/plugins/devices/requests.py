"""The devices that the claims of a pod request, prepared for the search, and the fields of each device that the search reads.

A request without alternatives counts as one `Alternative`. The search reads devices by a `DeviceCode` only: for each alternative, whether
its selectors match and the taints are tolerated; the attributes that constraints compare; and what the device offers and consumes. Devices
with other names, or that differ in attributes which nothing reads, have the same code, so nodes with such devices share an answer.

A device that can be shared defines for each of its capacities which amounts can be consumed: multiples of a step between two limits, or
some values. The amount of a request is rounded up to such an amount (`ConsumedCapacity`). A request without an amount gets the default, or
all of the capacity. Amounts are in nanos. Source: `structured/internal/incubating/consumable_capacity.go`, Kubernetes 1.36.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct, field

from wharfinger.framework.plugins.devices.cel.selector import CostBudget, TypedValue, attribute_value, selected
from wharfinger.model import objects
from wharfinger.model.devices.pools import DeviceContent, Pool
from wharfinger.model.objects import matching, quantity

if TYPE_CHECKING:
    from wharfinger.model.state.object_store import ObjectStore

MAX_CONTENTS = 5_000
"""Devices whose codes are remembered one by one."""
MAX_DEMANDS = 32
"""Lists of claims whose demand a cluster remembers, besides those of the templates that are kept."""


MAX_READ_AT_ONCE = 512
"""Devices times kinds of alternatives that are read in one step: about 10 ms."""
COST_SELECTED, COST_TOLERATED = 160, 10
"""The cost of checking a device for each kind of alternatives, and for each toleration and taint; in the units of `CostBudget`."""


class SelectorFault(Struct, frozen=True):
    """A selector that could not be answered for a device: an error that ends the cycle. `of_class` is "" for a selector of the claim."""

    of_class: str
    index: int
    text: str


BEYOND_BUDGET = SelectorFault("", -1, "")
"""The result of a request that would have cost too much, not because of a selector."""

Match = bool | SelectorFault


class Alternative(Struct, frozen=True, eq=False, kw_only=True):
    """One alternative of the request `parent`, or a request without alternatives (`parent` is "").

    `number` counts all alternatives of a pod. Those of one `kind` look for the same devices: they have the same class, selectors and so on.
    """

    number: int
    kind: int
    claim: int
    name: str
    parent: str
    device_class: objects.DeviceClass
    wanted: objects.RequestedDevices
    admin: bool

    @property
    def every(self) -> bool:
        """True if all devices that match are wanted."""
        return self.wanted.wants_all

    @property
    def count(self) -> int:
        """The number of devices that are wanted; meaningless if all are."""
        return self.wanted.count or 1

    @property
    def reference(self) -> str:
        """The name in a claim's status: `request`, or `request/alternative`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which constraints and configurations may mean it."""
        return (self.parent, self.reference) if self.parent else (self.name,)


class Request(Struct, frozen=True, eq=False, kw_only=True):
    """A request: its alternatives in order, of which one must be met. `choice` is False for an exact request, which has one alternative."""

    alternatives: tuple[Alternative, ...]
    choice: bool


class Constraint(Struct, frozen=True, eq=False, kw_only=True):
    """An attribute that must be the same, or with `distinct` must differ, over the devices of some requests (empty: of all)."""

    number: int
    requests: frozenset[str]
    attribute: str
    distinct: bool

    def concerns(self, alternative: Alternative) -> bool:
        """True if it holds for the devices of an alternative."""
        return not self.requests or not self.requests.isdisjoint(alternative.names)


class Claim(Struct, frozen=True, eq=False, kw_only=True):
    """The requests of one claim; `unknown` is the index of a constraint without an attribute, -1 for none."""

    requests: tuple[Request, ...]
    constraints: tuple[Constraint, ...]
    unknown: int = -1


class DeviceCode(Struct, frozen=True, eq=False):
    """A device as the search sees it; see the module.

    `matches`, `tolerated` and `consumed_capacities` have one entry for each kind of alternatives.
    """

    matches: tuple[Match, ...]
    tolerated: tuple[bool, ...]
    values: tuple[TypedValue | None, ...]
    consumed_capacities: tuple[tuple[ConsumedCapacity, ...] | None, ...]
    consumption: tuple[tuple[str, str, int], ...]
    shareable: bool


class PoolCode(Struct, frozen=True, eq=False):
    """A pool as the search sees it: the codes of its devices, the consumption of others by position, and its counters."""

    number: int
    codes: tuple[DeviceCode, ...]
    reachable: tuple[bool, ...] | None
    consumptions: tuple[tuple[tuple[str, str, int], ...], ...]
    counters: Mapping[str, Mapping[str, int]]
    incomplete: bool
    invalid: bool


class ClaimDemand(Struct, eq=False):
    """The requests of some claims, in order, and the codes of the devices read so far. `kinds` has one alternative of each kind.

    `outcomes` are those of searches, by what a search reads. Codes keep their numbers, so an outcome stays valid. `by_state` are the same
    by the number of a state of a node, until these are numbered again. `cost_budget` is the cost of selectors in this decision. `looked_at`
    is true once the devices of all nodes have been read, and `takes_long` once a search took several steps.
    """

    claims: tuple[Claim, ...]
    alternatives: tuple[Alternative, ...]
    kinds: tuple[Alternative, ...]
    constraints: tuple[Constraint, ...]
    outcomes: dict[Hashable, Any] = field(default_factory=dict)
    by_state: dict[int, Any] = field(default_factory=dict)
    cost_budget: CostBudget = field(default_factory=CostBudget)
    looked_at: bool = False
    takes_long: bool = False
    _epoch: int = -1
    _by_content: dict[int, tuple[int, DeviceCode]] = field(default_factory=dict)
    _codes: dict[Hashable, tuple[int, DeviceCode]] = field(default_factory=dict)
    _by_kind: dict[int, PoolCode] = field(default_factory=dict)
    _pool_codes: dict[Hashable, PoolCode] = field(default_factory=dict)

    def follow(self, epoch: int) -> None:
        """Forget which devices and pools have which codes, and the outcomes of states, if they are numbered again."""
        if epoch != self._epoch:
            self._epoch = epoch
            self.by_state.clear()
            self._by_content.clear()
            self._by_kind.clear()

    def compiling(self) -> Iterator[None]:
        """The steps of compiling all selectors, as far as the budget of a decision goes."""
        for alternative in self.kinds:
            for each in (*alternative.device_class.spec.selectors, *alternative.wanted.selectors):
                if each.cel is not None:
                    yield from self.cost_budget.compiling(each.cel.expression)

    def compact(self) -> None:
        """Forget the codes of single devices if there are many, and the spent budget. The decision has its answers."""
        self.cost_budget = CostBudget()
        if len(self._by_content) > MAX_CONTENTS:
            self._by_content.clear()

    def pool(self, pool: Pool) -> PoolCode:
        """The code of a pool; pools with equal numbers are equal to the search."""
        code = self._by_kind.get(pool.kind)
        if code is None:
            code = self._by_kind[pool.kind] = self._pool_code(pool)
        return code

    def reading(self, pool: Pool) -> Iterator[None]:
        """The steps of reading the devices of a pool for `pool`, if it is not known and they are many."""
        at_once = MAX_READ_AT_ONCE // max(1, len(self.kinds))
        if len(pool.contents) <= at_once or pool.kind in self._by_kind:
            return
        read = 0
        for content in pool.contents:
            if content.number not in self._by_content:
                self._device(content)
                read += 1
                if read > at_once:
                    read = 0
                    yield

    def _pool_code(self, pool: Pool) -> PoolCode:
        found = [self._device(content) for content in pool.contents]
        others = tuple(content.once("consumption", _consumption) for content in pool.others)
        counters = tuple(sorted((name, tuple(sorted(each.items()))) for name, each in pool.counters.items()))
        key = (tuple(number for number, _ in found), pool.reachable, others, counters, pool.incomplete, bool(pool.invalid))
        known = self._pool_codes.get(key)
        if known is None:
            known = self._pool_codes[key] = PoolCode(
                number=len(self._pool_codes),
                codes=tuple(code for _, code in found),
                reachable=pool.reachable,
                consumptions=(*(code.consumption for _, code in found), *others),
                counters=pool.counters,
                incomplete=pool.incomplete,
                invalid=bool(pool.invalid),
            )
        return known

    def _device(self, content: DeviceContent) -> tuple[int, DeviceCode]:
        known = self._by_content.get(content.number)
        if known is None:
            if self.cost_budget.exhausted:
                code = self._beyond_budget(content)
                key: Hashable = (BEYOND_BUDGET, code.consumption, code.shareable)
            else:
                code = self._code(content)
                key = (code.matches, code.tolerated, code.values, code.consumed_capacities, code.consumption, code.shareable)
            known = self._by_content[content.number] = self._codes.setdefault(key, (len(self._codes), code))
        return known

    def _code(self, content: DeviceContent) -> DeviceCode:
        device = content.device
        self.cost_budget.begin()
        answers: dict[str, bool | str] = {}
        return DeviceCode(
            matches=tuple(_match(alternative, content, self.cost_budget, answers) for alternative in self.kinds),
            tolerated=tuple(
                not device.taints or not matching.untolerated(alternative.wanted.tolerations, device.taints) for alternative in self.kinds
            ),
            values=tuple(attribute_value(device, content.driver, constraint.attribute) for constraint in self.constraints),
            consumed_capacities=tuple(_consumed_capacities(alternative, content) for alternative in self.kinds),
            consumption=content.once("consumption", _consumption),
            shareable=device.allow_multiple_allocations,
        )

    def _beyond_budget(self, content: DeviceContent) -> DeviceCode:
        """The code of a device that is not examined, because the budget is spent."""
        return DeviceCode(
            matches=(BEYOND_BUDGET,) * len(self.kinds),
            tolerated=(False,) * len(self.kinds),
            values=(None,) * len(self.constraints),
            consumed_capacities=(None,) * len(self.kinds),
            consumption=content.once("consumption", _consumption),
            shareable=content.device.allow_multiple_allocations,
        )


class KnownDemands:
    """Remembers the demands of lists of claims.

    Another template with the same claims, or a new node, does not read every device again.
    """

    kinds: ClassVar[tuple[type[objects.AnyObject], ...]] = (objects.DeviceClass,)

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: OrderedDict[Hashable, ClaimDemand] = OrderedDict()
        self.take_long = False  # true once a search for any of them took several steps

    def changed(self, old: objects.AnyObject | None, new: objects.AnyObject | None) -> None:  # noqa: ARG002 — the port
        """Forget everything after a change of device classes."""
        self._known.clear()

    def of(self, specs: Sequence[objects.ResourceClaimSpec]) -> ClaimDemand:
        """The demand of these claims; every class that they name must exist."""
        key = tuple(map(_ENCODER.encode, specs))
        known = self._known.pop(key, None)
        if known is None:
            known = demand_of(specs, {each.metadata.name: each for each in self._store.all(objects.DeviceClass)})
        self._known[key] = known
        if len(self._known) > MAX_DEMANDS:
            self._known.popitem(last=False)
        return known


_ENCODER = msgspec.json.Encoder(order="deterministic")


def demand_of(specs: Sequence[objects.ResourceClaimSpec], classes: Mapping[str, objects.DeviceClass]) -> ClaimDemand:
    """The demand of these claims; every class that they name must be among `classes`."""
    alternatives: list[Alternative] = []
    kinds: dict[Hashable, Alternative] = {}
    constraints: list[Constraint] = []
    claims = []
    for index, spec in enumerate(specs):
        requests = []
        for request in spec.devices.requests:
            wanted: Iterable[tuple[str, str, objects.RequestedDevices, bool]]
            if request.exactly is not None:
                wanted = [(request.name, "", request.exactly, bool(request.exactly.admin_access))]
            else:
                wanted = [(each.name, request.name, each, False) for each in request.first_available]
            first = len(alternatives)
            for name, parent, of, admin in wanted:
                key = _ENCODER.encode((of.device_class_name, of.selectors, of.tolerations, of.capacity))
                alternative = Alternative(
                    number=len(alternatives),
                    kind=kinds[key].kind if key in kinds else len(kinds),
                    claim=index,
                    name=name,
                    parent=parent,
                    device_class=classes[of.device_class_name],
                    wanted=of,
                    admin=admin,
                )
                kinds.setdefault(key, alternative)
                alternatives.append(alternative)
            requests.append(Request(alternatives=tuple(alternatives[first:]), choice=request.exactly is None))
        own = []
        unknown = -1
        for place, constraint in enumerate(spec.devices.constraints):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            if attribute is None:
                unknown = place if unknown < 0 else unknown
                continue
            distinct = constraint.match_attribute is None
            own.append(Constraint(number=len(constraints), requests=frozenset(constraint.requests), attribute=attribute, distinct=distinct))
            constraints.append(own[-1])
        claims.append(Claim(requests=tuple(requests), constraints=tuple(own), unknown=unknown))
    return ClaimDemand(tuple(claims), tuple(alternatives), tuple(kinds.values()), tuple(constraints))


def _match(alternative: Alternative, content: DeviceContent, cost_budget: CostBudget, answers: dict[str, bool | str]) -> Match:
    """The answer of the selectors of class and request, in this order, for a device; the first that does not match or fails decides.

    `answers` are those of the device so far, by expression.
    """
    for of_class, selectors in (
        (alternative.device_class.metadata.name, alternative.device_class.spec.selectors),
        ("", alternative.wanted.selectors),
    ):
        for index, selector in enumerate(selectors):
            expression = "" if selector.cel is None else selector.cel.expression
            answer = answers.get(expression)
            if answer is None:
                answer = answers[expression] = selected(selector, content, cost_budget)
            if isinstance(answer, str):
                return SelectorFault(of_class, index, answer)
            if not answer:
                return False
    return True if cost_budget.spend(_cost(alternative, content.device)) else BEYOND_BUDGET


def _cost(alternative: Alternative, device: objects.Device) -> int:
    """The cost of checking a device for an alternative, besides its selectors: its taints and capacities; in the units of `CostBudget`."""
    amounts = 0 if alternative.wanted.capacity is None else len(device.capacity)
    return COST_SELECTED * (1 + amounts) + COST_TOLERATED * len(alternative.wanted.tolerations) * len(device.taints)


def _consumed_capacities(alternative: Alternative, content: DeviceContent) -> tuple[ConsumedCapacity, ...] | None:
    if alternative.wanted.capacity is None:
        return content.once("portions", _default_consumption)
    return consumed_capacities(alternative.wanted.capacity.requests, content.device.capacity)


def _default_consumption(content: DeviceContent) -> tuple[ConsumedCapacity, ...] | None:
    """The consumption of a request that names no amounts."""
    return consumed_capacities({}, content.device.capacity)


def _consumption(content: DeviceContent) -> tuple[tuple[str, str, int], ...]:
    """(set, counter, nanos) for each counter that a device consumes."""
    return tuple(
        (each.counter_set, name, quantity.nano(counter.value))
        for each in content.device.consumes_counters
        for name, counter in sorted(each.counters.items())
    )


class ConsumedCapacity(Struct, frozen=True):
    """The consumption of one capacity: nanos, the text for the claim's status, and the whole capacity."""

    name: str
    nanos: int
    text: str
    there: int


def consumed_capacities(wanted: Mapping[str, str], capacity: Mapping[str, objects.DeviceCapacity]) -> tuple[ConsumedCapacity, ...] | None:
    """The consumption of a request for these amounts, of each capacity of a device; None if the device does not allow it."""
    if not wanted.keys() <= capacity.keys():
        return None
    found = []
    for name, of in sorted(capacity.items()):
        text = _consumed(wanted.get(name), of)
        if of.request_policy is not None and _forbidden(text, of.request_policy):
            return None
        found.append(ConsumedCapacity(name, quantity.nano(text), canonical(text), quantity.nano(of.value)))
    return tuple(found)


def _consumed(wanted: str | None, of: objects.DeviceCapacity) -> str:
    policy = of.request_policy
    if wanted is None:
        return of.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _in_steps(wanted, policy.valid_range.min, policy.valid_range.step)
    return next((value for value in policy.valid_values if quantity.nano(wanted) <= quantity.nano(value)), wanted)


def _in_steps(wanted: str, least: str, step: str | None) -> str:
    """The lowest amount that is at least `wanted` and a whole number of steps above the minimum."""
    if quantity.nano(wanted) < quantity.nano(least):
        return least
    if step is None or not quantity.value(step):
        return wanted
    start, width = quantity.value(least), quantity.value(step)
    return _in_binary((start + -(-(quantity.value(wanted) - start) // width) * width) * quantity.NANO)


def _forbidden(text: str, policy: objects.CapacityRequestPolicy) -> bool:
    amount = quantity.nano(text)
    if policy.default is not None and amount == quantity.nano(policy.default):
        return False
    if policy.valid_range is not None:
        most, step, least = policy.valid_range.max, policy.valid_range.step, policy.valid_range.min
        if most is not None and amount > quantity.nano(most):
            return True
        width = 0 if step is None else quantity.value(step)
        return width != 0 and (quantity.value(text) - quantity.value(least or "0")) % width != 0
    return bool(policy.valid_values) and all(amount != quantity.nano(value) for value in policy.valid_values)


_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


def canonical(text: str) -> str:
    """A quantity as Kubernetes writes it: with the largest suffix that loses nothing, a binary one only from 1024 on."""
    if text.endswith("i"):
        return _in_binary(quantity.nano(text))
    return text if set(text[:-1]) & {"e", "E"} else _in_decimal(quantity.nano(text))  # one with an exponent keeps it


def _in_binary(nanos: int) -> str:
    units, rest = divmod(nanos, quantity.NANO)
    return _in_decimal(nanos) if rest or units < 1024 else quantity.format_bytes(units)


def _in_decimal(nanos: int) -> str:
    place = 0
    while nanos and nanos % 1000 == 0 and place + 1 < len(_SUFFIXES):
        nanos, place = nanos // 1000, place + 1
    return f"{nanos}{_SUFFIXES[place]}" if nanos else "0"

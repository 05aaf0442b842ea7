"""The unknowns of a statement in z3: any pod, and one or two of the nodes of any cluster.

A string is the number of a text in `texts`; numbers beyond it are texts that nothing names. A function of strings is an uninterpreted
function of z3, with the results for all texts that the policies name. So a statement that holds whatever the other texts are is proved.

An *example* world looks for a cluster that can be written down as a test: each text is one of those known, amounts are not too large, and
the pods on a node are a few of one kind and one of another. A *general* world leaves all this open.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3
from msgspec import Struct

from wharfinger.language.semantics.catalogue import Attribute, Subject
from wharfinger.language.semantics.types import NUMERIC, Kind
from wharfinger.language.test_steps import START
from wharfinger.model.attributes import NODE_ATTRIBUTES, POD_ATTRIBUTES
from wharfinger.model.devices.shared_gpus import MAX_GPUS, WHOLE, GpuNames
from wharfinger.model.node_labels import HOSTNAME
from wharfinger.model.objects.requests import MAX_AMOUNT, NATIVE_BY_FIELD
from wharfinger.prove.logic import Condition, Numbers, Term, Value, as_bool, both, either, implied, negated, real

POD = "pod"
SPARE_TEXTS = ("x1", "x2", "x3")
MAX_COMBINATIONS = 4096
"""Combinations of texts that the tables of all functions of a question name; a function beyond it has any results."""
MAX_RESULTS = 65_536
"""Results that are calculated for these tables."""
MAX_EQUAL_PODS = 110  # pods of one kind on a node of an example
MAX_SUMMED = 6  # of them, if their values are added up
LAST_TIME = 253402300800.0  # seconds from 1970 to the year 10000
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
QOS = ("Guaranteed", "Burstable", "BestEffort")
NATIVE = tuple(NATIVE_BY_FIELD)
TEXTS = frozenset({Kind.STRING, Kind.VERSION})
READY = ("True", "False", "Unknown")
MAX_EXAMPLE_AMOUNTS = {Kind.CPU: 64_000, Kind.MEMORY: 1 << 40, Kind.COUNT: 10_000, Kind.NUMBER: 2**31 - 1}


def node(index: int) -> str:
    """The owner of the attributes of a node."""
    return f"node {index}"


def of_node(path: str, *, keyed: bool = False) -> Attribute:
    """The attribute of nodes with this path; `keyed` selects the one with or without a key."""
    return next(each for each in NODE_ATTRIBUTES if each.path == path and each.keyed is keyed)


def of_pod(path: str, subject: Subject, *, keyed: bool = False) -> Attribute:
    """The attribute with this path of the pod to be placed, or of placed pods; `keyed` selects the one with or without a key."""
    return next(each for each in POD_ATTRIBUTES if each.path == path and each.subject is subject and each.keyed is keyed)


class Slot(Struct, frozen=True, kw_only=True):
    """Equal placed pods on one node of an example; `number` is how many there are."""

    owner: str
    node: int
    number: Any


class Application(Struct, kw_only=True):
    """A function of strings where it is applied."""

    scalar: Callable[..., Any]
    arguments: tuple[Any, ...]  # terms of strings, or plain values
    kind: Kind
    value: Value


@dataclass(slots=True)
class World:
    """The unknowns of one question, and the facts about them.

    `fixed` gives amounts of nodes known values in an example (`{"allocatable.cpu": 8000}`, one mapping for each node).
    """

    n_nodes: int
    example: bool = False
    fixed: Sequence[dict[str, int]] = ()
    texts: list[str] = field(default_factory=list)
    numbers: Numbers = field(init=False)
    slots: list[Slot] = field(default_factory=list)
    plain: dict[tuple[str, str], tuple[Attribute, Value]] = field(default_factory=dict)
    keyed: dict[tuple[str, str], tuple[Attribute, list[Any]]] = field(default_factory=dict)
    named: dict[str, Any] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)
    _applications: dict[int, Application] = field(default_factory=dict)  # by the id of the term
    _strings: list[Any] = field(default_factory=list)  # free ones
    _n_combinations: int = 0  # of MAX_COMBINATIONS
    _n_results: int = 0  # of MAX_RESULTS

    def __post_init__(self) -> None:
        self.numbers = Numbers(approximate=self.example)
        for text in ("default", *SPARE_TEXTS):
            self.text(text)
        if self.example:
            self.slots = [
                Slot(owner=f"{node(i)} {which}", node=i, number=z3.Int(f"{which} on {i}"))
                for i in range(self.n_nodes)
                for which in ("crowd", "other")
            ]
            self.facts.extend(
                z3.And(slot.number >= 0, slot.number <= (MAX_EQUAL_PODS if slot.owner.endswith("crowd") else 1)) for slot in self.slots
            )

    @property
    def facts(self) -> list[Any]:
        """The facts about the unknowns."""
        return self.numbers.facts

    @property
    def now(self) -> Value:
        """The time of the snapshot."""
        if self.example:
            return Value(real(START.timestamp()), True, START.timestamp(), START.timestamp(), whole=True)
        return self.free("now", Kind.TIME, low=0.0, high=LAST_TIME)

    # ── strings ──

    def text(self, text: str) -> Any:
        """The term of a known text."""
        if text not in self._ids:
            self._ids[text] = len(self.texts)
            self.texts.append(text)
        return z3.IntVal(self._ids[text])

    def members(self, values: frozenset[Any], element: Kind | None) -> Term:
        """A known set, as the condition that a term belongs to it."""
        terms = [real(value) if element in NUMERIC else self.text(value) for value in sorted(values)]
        return lambda member: z3.Or(*(member == term for term in terms)) if terms else False

    def applied(self, name: str, scalar: Callable[..., Any], arguments: Sequence[Any], kind: Kind, *, partial: bool) -> Value:
        """The value of a function of strings; `arguments` are terms, or plain values that are always the same."""
        if not any(z3.is_expr(each) for each in arguments):
            return self._known(scalar(*arguments), kind)
        free = [each for each in arguments if z3.is_expr(each)]
        if all(z3.is_int_value(each) for each in free):
            return self._known(scalar(*(self._plain(each) for each in arguments)), kind)
        settings = ", ".join("·" if z3.is_expr(each) else repr(each) for each in arguments)
        sort = z3.BoolSort() if kind is Kind.BOOL else z3.IntSort() if kind in TEXTS else z3.RealSort()
        sorts = [z3.IntSort()] * len(free)
        term = z3.Function(f"{name}({settings})", *sorts, sort)(*free)
        present = z3.Function(f"{name}({settings}) is there", *sorts, z3.BoolSort())(*free) if partial else True
        value = Value(term, present)
        self._applications[term.get_id()] = Application(scalar=scalar, arguments=tuple(arguments), kind=kind, value=value)
        return value

    def _plain(self, argument: Any) -> Any:
        return self.texts[argument.as_long()] if z3.is_expr(argument) else argument

    def _known(self, result: Any, kind: Kind) -> Value:
        if result is None:
            return Value(self._nothing(kind), False)
        if kind is Kind.BOOL:
            return Value(bool(result))
        if kind in TEXTS:
            return Value(self.text(result))
        return Value(real(result), True, float(result), float(result), float(result).is_integer())

    def _nothing(self, kind: Kind) -> Any:
        return False if kind is Kind.BOOL else z3.IntVal(0) if kind in TEXTS else real(0)

    def close(self) -> None:
        """State the values of string functions for all known texts, and the relations between attributes of one node."""
        self._link()
        known = len(self.texts)
        if self.example:
            self.facts.extend(z3.And(term >= 0, term < known) for term in self._strings)
        done = 0
        while done < len(self.texts) <= known + MAX_COMBINATIONS:
            upto = len(self.texts)
            for application in self._applications.values():
                self._tabulate(application, done, upto)
            if done:
                break  # results of results are left open
            done = upto

    def _tabulate(self, application: Application, done: int, upto: int) -> None:
        places = [index for index, each in enumerate(application.arguments) if z3.is_expr(each) and not z3.is_int_value(each)]
        self._n_results += upto ** len(places) - done ** len(places)
        if self._n_results > MAX_RESULTS:
            return
        arguments = [self._plain(each) if z3.is_int_value(each) else each for each in application.arguments]
        results: dict[Any, list[tuple[int, ...]]] = {}
        for ids in itertools.product(range(upto), repeat=len(places)):
            if max(ids) >= done:
                for place, id_ in zip(places, ids, strict=True):
                    arguments[place] = self.texts[id_]
                results.setdefault(application.scalar(*arguments), []).append(ids)
        terms = [application.arguments[place] for place in places]
        most = max(results, key=lambda result: len(results[result])) if len(terms) == 1 else ()  # no function has such a result
        named = [ids for result, found in results.items() if result != most for ids in found]
        self._n_combinations += len(named)
        if self._n_combinations > MAX_COMBINATIONS:
            return
        for result, found in results.items():
            if result == most:
                applies = both(terms[0] >= done, terms[0] < upto, *(terms[0] != ids[0] for ids in named))
            else:
                applies = either(*(both(*(term == id_ for term, id_ in zip(terms, ids, strict=True))) for ids in found))
            self._state(application, applies, result)

    def _state(self, application: Application, applies: Condition, result: Any) -> None:
        """State that a function has a result where a condition is true."""
        known, value = self._known(result, application.kind), application.value
        same = both(value.term == known.term, value.present) if known.present is True else negated(value.present)
        self.facts.append(as_bool(implied(applies, same)))

    # ── unknowns ──

    def free(self, name: str, kind: Kind, *, low: float = -math.inf, high: float = math.inf, whole: bool = False) -> Value:
        """An unknown of that name."""
        if kind is Kind.BOOL:
            return Value(z3.Bool(name))
        if kind in TEXTS:
            term = z3.Int(name)
            if name not in self.named:
                self._strings.append(term)
            self.named[name] = term
            return Value(term)
        return self._bounded(name, z3.Int(name) if whole else z3.Real(name), low, high, whole=whole)

    def _bounded(self, name: str, term: Any, low: float, high: float, *, whole: bool) -> Value:
        if name not in self.named:
            self.named[name] = term
            self.facts.extend(term >= z3.IntVal(int(low)) if whole else term >= real(low) for _ in range(math.isfinite(low)))
            self.facts.extend(term <= z3.IntVal(int(high)) if whole else term <= real(high) for _ in range(math.isfinite(high)))
        return Value(z3.ToReal(term) if whole else term, True, low, high, whole)

    def attribute(self, owner: str, attribute: Attribute, key: Any = None) -> Value:
        """The value of an attribute of the pod, a node or a placed pod; `key` is the term of its key."""
        if key is None:
            return self._plain_attribute(owner, attribute)
        name, kind = f"{owner}.{attribute.path}", Kind.STRING if attribute.type.kind is Kind.LABELS else attribute.type.kind
        _, keys = self.keyed.setdefault((owner, attribute.path), (attribute, []))
        known = any(key.eq(other) for other in keys)
        present = True
        if attribute.type.optional or attribute.type.kind is Kind.LABELS:
            present = z3.Function(f"{name} has", z3.IntSort(), z3.BoolSort())(key)
        term = z3.Function(name, z3.IntSort(), z3.IntSort())(key)
        low, high = self._ends(attribute)
        if not known:
            keys.append(key)
            if kind is Kind.STRING:
                self._strings.append(term)
            else:
                self.facts.extend(term >= int(low) for _ in range(math.isfinite(low)))
                self.facts.extend(term <= int(high) for _ in range(math.isfinite(high)))
        return Value(term, present) if kind is Kind.STRING else Value(z3.ToReal(term), present, low, high, whole=True)

    def _plain_attribute(self, owner: str, attribute: Attribute) -> Value:
        found = self.plain.get((owner, attribute.path))
        if found is None:
            found = self.plain[owner, attribute.path] = (attribute, self._new_attribute(owner, attribute))
        return found[1]

    def _new_attribute(self, owner: str, attribute: Attribute) -> Value:
        name, kind = f"{owner}.{attribute.path}", attribute.type.kind
        present: Condition = z3.Bool(f"{name} is there") if attribute.type.optional else True
        if kind is Kind.SET:
            return Value(z3.Function(name, z3.IntSort(), z3.BoolSort()), present)
        fixed = self._fixed(owner, attribute.path)
        if fixed is not None:
            return Value(real(fixed), present, float(fixed), float(fixed), whole=True)
        low, high = self._ends(attribute)
        value = self.free(name, kind, low=low, high=high, whole=kind is not Kind.TIME or self.example)
        if attribute.path == "qos":
            self.facts.append(z3.Or(*(value.term == self.text(each) for each in QOS)))
        return Value(value.term, present, value.low, value.high, value.whole)

    def _fixed(self, owner: str, path: str) -> int | None:
        index = next((i for i in range(len(self.fixed)) if owner == node(i)), None)
        return None if index is None else self.fixed[index].get(path)

    def _ends(self, attribute: Attribute) -> tuple[float, float]:
        """The interval of a number."""
        kind, path = attribute.type.kind, attribute.path
        low = -math.inf if attribute.low is None else min(attribute.low, 0.0)  # a node may claim to have no cpu at all
        high = math.inf if attribute.high is None else attribute.high
        if kind is Kind.TIME:
            return low, LAST_TIME if not self.example else START.timestamp()
        if kind not in NUMERIC or (math.isfinite(low) and math.isfinite(high)):
            return low, high
        sums = path.startswith(("free", "requested")) or path == "pod_count"  # of any number of pods
        most = float(MAX_AMOUNT) * (2.0**40 if sums else 1.0)
        if self.example:
            most = min(most, float(MAX_EXAMPLE_AMOUNTS.get(kind, 1 << 40)))
        return (-most, min(most, float(MAX_AMOUNT))) if path.startswith("free") else (low, most)

    # ── what hangs together ──

    def _link(self) -> None:
        if self.example:
            self._link_gpus()
        for owner in [node(index) for index in range(self.n_nodes)]:
            for native in NATIVE:
                self._link_native(owner, native)
            self._link_pods(owner)
            self._link_keyed(owner)
        if self.n_nodes > 1 and any((node(i), "name") in self.plain for i in range(self.n_nodes)):
            self.facts.append(z3.Distinct(*(z3.Int(f"{node(i)}.name") for i in range(self.n_nodes))))

    def _link_native(self, owner: str, native: str) -> None:
        read = {table: self.plain.get((owner, f"{table}.{native}")) for table in ("allocatable", "requested", "free")}
        if read["free"] is None and not (self.example and read["requested"] is not None):
            return
        values = {table: self._plain_attribute(owner, of_node(f"{table}.{native}")) for table in read}
        exact = True if self.example else values["requested"].term <= real(MAX_AMOUNT)
        self.facts.append(values["free"].term <= values["allocatable"].term)
        self.facts.append(as_bool(implied(exact, values["free"].term == values["allocatable"].term - values["requested"].term)))
        if self.example:
            requests = of_pod(f"requests.{native}", Subject.ITEM)
            requesting = [(slot, self.attribute(slot.owner, requests)) for slot in self.slots if node(slot.node) == owner]
            for slot, value in requesting:
                if slot.owner.endswith("crowd"):
                    self.facts.append(value.term == 0)
            used = [z3.If(slot.number > 0, value.term, real(0)) for slot, value in requesting]
            self.facts.append(values["requested"].term == z3.Sum(*used))

    def _link_pods(self, owner: str) -> None:
        if (owner, "free.pods") in self.plain:
            free, most = self.plain[owner, "free.pods"][1], self._plain_attribute(owner, of_node("allocatable.pods"))
            self.facts.append(free.term == most.term - self._plain_attribute(owner, of_node("pod_count")).term)
        if self.example and (owner, "pod_count") in self.plain:
            numbers = [slot.number for slot in self.slots if node(slot.node) == owner]
            self.facts.append(self.plain[owner, "pod_count"][1].term == z3.ToReal(z3.Sum(*numbers)))
        if self.example and (owner, "name") in self.plain:
            self.facts.append(z3.Or(*(z3.Int(f"{owner}.name") == self.text(each) for each in self.texts if each)))

    def _link_keyed(self, owner: str) -> None:
        read = {table: self.keyed.get((owner, table)) for table in ("allocatable", "capacity", "requested", "free")}
        keys = [key for found in read.values() if found is not None for key in found[1]]
        for key in keys:
            offered, left, used = (self.attribute(owner, of_node(table, keyed=True), key) for table in ("allocatable", "free", "requested"))
            exact = True if self.example else used.term <= real(MAX_AMOUNT)
            self.facts.append(as_bool(implied(left.present, left.term <= offered.term)))
            self.facts.append(offered.present == left.present)
            self.facts.append(as_bool(implied(both(exact, left.present), left.term == offered.term - used.term)))
            if self.example:
                capacity = self.attribute(owner, of_node("capacity", keyed=True), key)
                self.facts.append(z3.Implies(offered.present, capacity.present))
                others = [slot for slot in self.slots if node(slot.node) == owner and slot.owner.endswith("other")]
                self.facts.append(z3.Implies(used.term > 0, z3.Or(*(slot.number > 0 for slot in others))))
        if self.example:
            for table, default in (("labels", HOSTNAME), ("conditions", "Ready")):
                if any(
                    not z3.is_int_value(key) or self.texts[key.as_long()] == default
                    for key in self.keyed.get((owner, table), (None, []))[1]
                ):
                    self.facts.append(as_bool(self.attribute(owner, of_node(table, keyed=True), self.text(default)).present))
            if (owner, "conditions") in self.keyed:
                for key in self.keyed[owner, "conditions"][1]:
                    status = self.attribute(owner, of_node("conditions", keyed=True), key)
                    self.facts.append(z3.Or(*(status.term == self.text(each) for each in READY)))

    def _link_gpus(self) -> None:
        """Keep an example to pods of one GPU at most and to whole GPUs, where the policies read shares of GPUs.

        GpuShares then rejects a node exactly if it has fewer free thousandths than the pod requests.
        """
        names = GpuNames()
        share, count = self.text(names.share), self.text(names.count)
        if not self._reads_key(share):
            return
        offers, used, asks = (
            of_node("allocatable", keyed=True),
            of_node("requested", keyed=True),
            of_pod("requests", Subject.POD, keyed=True),
        )
        requested = self.attribute(POD, asks, share)
        self.facts.append(requested.term <= WHOLE)
        if self._reads_key(count):
            whole = self.attribute(POD, asks, count)
            self.facts.append(as_bool(implied(whole.present, both(requested.present, requested.term == WHOLE * whole.term))))
        for owner in [node(index) for index in range(self.n_nodes)]:
            gpus, offered = z3.Int(f"{owner} GPUs"), self.attribute(owner, offers, share)
            self.facts.extend((gpus >= 0, gpus <= MAX_GPUS, offered.term == z3.ToReal(WHOLE * gpus)))
            self.facts.append(self.attribute(owner, used, share).term <= WHOLE)
            if self._reads_key(count):
                counted = self.attribute(owner, offers, count)
                self.facts.append(as_bool(implied(counted.present, counted.term == z3.ToReal(gpus))))

    def _reads_key(self, key: Any) -> bool:
        """True if a resource of that name is read of a node or of the pod."""
        return any(key.eq(other) for _, keys in self.keyed.values() for other in keys)

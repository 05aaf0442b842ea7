"""The values that z3 found, as the text of a `test` block: nodes, running pods, samples and the pod to be placed.

A test sets only what the policies read; the rest has the defaults of tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import z3

from wharfinger.language.semantics.describe import quoted
from wharfinger.language.semantics.types import Kind, literal
from wharfinger.language.test_steps import START
from wharfinger.prove.encoder import Encoder
from wharfinger.prove.logic import as_bool, number_of
from wharfinger.prove.world import EFFECTS, NATIVE, POD, World, node

PLAIN_POD = {
    "namespace": "namespace",
    "priority_class": "priority_class",
    "qos": "qos",
    "service_account": "service_account",
    "scheduler_name": "scheduler_name",
}
NODE_NAMES = "ab"


class Example:
    """A model of z3, read as objects of a test."""

    def __init__(self, world: World, model: Any, encoders: Sequence[Encoder]) -> None:
        self.world = world
        self.model = model
        self.encoders = encoders
        self.nodes = [self._name(node(index)) or NODE_NAMES[index] for index in range(world.n_nodes)]
        self.pod = self._name(POD) or "web"

    def _name(self, owner: str) -> str | None:
        found = self.world.plain.get((owner, "name"))
        return None if found is None else self._text(found[1].term)

    def number(self, term: Any) -> float:
        """The number that a term is."""
        return float(number_of(self.model.eval(term, model_completion=True)))

    def holds(self, condition: Any) -> bool:
        """True if a condition holds."""
        return bool(z3.is_true(self.model.eval(as_bool(condition), model_completion=True)))

    def _text(self, term: Any) -> str:
        id_ = self.model.eval(term, model_completion=True).as_long()
        return self.world.texts[id_] if 0 <= id_ < len(self.world.texts) else f"y{abs(id_)}"

    def written(self, settings: Sequence[str], title: str, expectations: Sequence[str], policies: Sequence[Encoder]) -> str:
        """The test block, with samples of the metrics of `policies`."""
        lines = [*settings]
        for index, name in enumerate(self.nodes):
            lines.append(f"node {quoted(name)} {_object(self._node(index))}")
        lines.append(f"pod {quoted(self.pod)} {_object(self._pod(POD))}")
        lines += self._running()
        lines += self._metrics(policies)
        lines += [f"place {quoted(self.pod)}", *expectations]
        body = "\n".join(f"  {line}" for line in lines)
        return f"test {quoted(title)} {{\n{body}\n}}\n"

    # ── nodes ──

    def _node(self, index: int) -> Iterator[str]:
        owner = node(index)
        yield from self._amounts(owner, "allocatable")
        yield from _group("resources", self._keyed(owner, "allocatable"))
        yield from _group("capacity", [*self._capacities(owner), *self._keyed(owner, "capacity")])
        for table in ("labels", "annotations", "conditions"):
            yield from _group(table, self._keyed(owner, table))
        taints = [quoted(f"counterexample-{number}:{effect}") for effect in EFFECTS for number in range(self._taints(index, effect))]
        prefix = f"{owner} has taint "
        names = sorted(each.name() for each in self.model.decls() if each.name().startswith(prefix))
        named = [name.removeprefix(prefix) for name in names if self.holds(z3.Bool(name))]
        taints += [quoted(text if ":" in text else f"{text}:NoSchedule") for text in named]
        if taints:
            yield f"taints: [{', '.join(taints)}]"
        if (owner, "unschedulable") in self.world.plain and self.holds(self.world.plain[owner, "unschedulable"][1].term):
            yield "unschedulable: true"
        yield from self._age(owner)

    def _taints(self, index: int, effect: str) -> int:
        term = self.world.named.get(f"{node(index)} taints {effect}")
        return 0 if term is None else int(self.number(term))

    def _amounts(self, owner: str, table: str) -> Iterator[str]:
        for path, kind in (*((each, _KINDS[each]) for each in NATIVE), ("pods", Kind.COUNT)):
            found = self.world.plain.get((owner, f"{table}.{path}"))
            if found is not None:
                yield f"{path}: {literal(self.number(found[1].term), kind)}"

    def _capacities(self, owner: str) -> Iterator[str]:
        yield from self._amounts(owner, "capacity")

    def _age(self, owner: str) -> Iterator[str]:
        found = self.world.plain.get((owner, "created"))
        if found is not None and self.holds(found[1].present):
            yield f"age: {literal(START.timestamp() - self.number(found[1].term), Kind.DURATION)}"

    def _keyed(self, owner: str, table: str) -> list[str]:
        """The entries of a keyed attribute, each key once."""
        if (owner, table) not in self.world.keyed:
            return []
        attribute, keys = self.world.keyed[owner, table]
        entries: dict[str, str] = {}
        for key in keys:
            value = self.world.attribute(owner, attribute, key)
            if self.holds(value.present):
                text = attribute.type.kind in (Kind.STRING, Kind.LABELS)
                entries[self._text(key)] = quoted(self._text(value.term)) if text else literal(self.number(value.term), attribute.type.kind)
        return [f"{quoted(key)}: {value}" for key, value in entries.items()]

    # ── pods ──

    def _pod(self, owner: str) -> Iterator[str]:
        plain = {path: found[1] for (whose, path), found in self.world.plain.items() if whose == owner}
        for path, name in PLAIN_POD.items():
            if path in plain and self.holds(plain[path].present):
                yield f"{name}: {quoted(self._text(plain[path].term))}"
        if "priority" in plain:
            yield f"priority: {int(self.number(plain['priority'].term))}"
        for table in ("labels", "namespace_labels", "annotations", "node_selector"):
            yield from _group(table, self._keyed(owner, table))
        for table in ("requests", "limits"):
            yield from _group(table, [*self._native(plain, table), *self._keyed(owner, table)])
        yield from _group(
            "owner",
            [
                f"{part}: {quoted(self._text(plain[f'owner_{part}'].term))}"
                for part in ("kind", "name")
                if f"owner_{part}" in plain and self.holds(plain[f"owner_{part}"].present)
            ],
        )
        if "images" in plain:
            images = [
                quoted(text) for id_, text in enumerate(self.world.texts) if text and self.holds(plain["images"].term(z3.IntVal(id_)))
            ]
            yield f"images: [{', '.join(images)}]"
        tolerations = self._tolerations() if owner == POD else []
        if tolerations:
            yield f"tolerations: [{', '.join(map(quoted, tolerations))}]"
        yield from self._age(owner)

    def _native(self, plain: dict[str, Any], table: str) -> Iterator[str]:
        for name in NATIVE:
            value = plain.get(f"{table}.{name}")
            if value is not None and self.holds(value.present):
                yield f"{name}: {literal(self.number(value.term), _KINDS[name])}"

    def _tolerations(self) -> list[str]:
        names = [each.name() for each in self.model.decls() if each.name().startswith(f"{POD} tolerates ")]
        found = [name.removeprefix(f"{POD} tolerates ") for name in sorted(names) if self.holds(z3.Bool(name))]
        for effect in EFFECTS:
            most = max(self._taints(index, effect) for index in range(self.world.n_nodes))
            found += [f"counterexample-{number}:{effect}" for number in range(most if effect != "PreferNoSchedule" else 0)]
        return found

    def _running(self) -> Iterator[str]:
        number = 0
        for slot in self.world.slots:
            first: int | None = None
            read = any(whose == slot.owner for whose, _ in (*self.world.plain, *self.world.keyed))
            counted = (node(slot.node), "pod_count") in self.world.plain
            extended = self._extended(slot.node) if slot.owner.endswith("other") else []
            for _ in range(int(self.number(slot.number)) if read or counted or extended else 0):
                number += 1
                like = f" like running_{first}" if first is not None else ""
                fields = "" if first is not None else f" {_object(self._placed(slot.owner, extended))}"
                yield f"running running_{number}{like} on {quoted(self.nodes[slot.node])}{fields}"
                first = number if first is None else first

    def _placed(self, owner: str, extended: list[str]) -> Iterator[str]:
        for field in self._pod(owner):
            if field.startswith("requests: {") and extended:
                yield f"{field[:-1].rstrip()}, {', '.join(extended)} }}"
                extended = []
            else:
                yield field
        yield from _group("requests", extended)

    def _extended(self, index: int) -> list[str]:
        """The requests of extended resources by the pods on a node."""
        return [entry for entry in self._keyed(node(index), "requested") if not entry.endswith(": 0")]

    # ── metrics ──

    def _metrics(self, policies: Sequence[Encoder]) -> Iterator[str]:
        written: set[str] = set()
        for encoder in policies:
            for metric in encoder.policy.metrics:
                samples = []
                for index, name in enumerate(self.nodes):
                    if f"{node(index)} {encoder.sample_name(metric.name)}" not in self.world.named:
                        continue
                    value, age = encoder.sample(metric.name, index)
                    if self.holds(value.present):
                        old = f" age {literal(self.number(age), Kind.DURATION)}" if self.number(age) else ""
                        samples.append(f"{quoted(name)}: {literal(self.number(value.term), metric.type.kind)}{old}")
                if samples and metric.name not in written:
                    written.add(metric.name)
                    yield f"metric {metric.name} {{ {', '.join(samples)} }}"


_KINDS = {"cpu": Kind.CPU, "memory": Kind.MEMORY, "ephemeral_storage": Kind.MEMORY}


def _object(fields: Iterator[str]) -> str:
    text = ", ".join(fields)
    return f"{{ {text} }}" if text else "{ }"


def _group(name: str, entries: Any) -> Iterator[str]:
    found = list(entries)
    if found:
        yield f"{name}: {{ {', '.join(found)} }}"

"""The weights of steps and selections: the operations of a step for each node, about 2 ns each, and of a selection for each placed pod.

An operation on a placed pod takes 100 to 200 ns.
"""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.builtins import CATALOGUE, fragmentation, texts
from wharfinger.compiler import selections
from wharfinger.compiler.graph import leaves
from wharfinger.compiler.graph import operations as ops
from wharfinger.compiler.graph.ir import Node, Rep, Stage, ordered
from wharfinger.language.semantics.catalogue import Subject

TEXT = 300  # a function of strings, evaluated for each node
MEMBER = 50  # membership in a set of strings, the same
CALL = 10
DEVICES = 8  # of a node, as servers have them
REQUEST = 12  # a typical request, for the fragmentation of a node with eight devices
PART_OF_DEVICE = 36  # another part of a device, or other models, that one of the requests asks for, there
OVER_DOMAINS = 10  # to add up what nodes have in each domain
PLUGIN = 50  # the points of one of Kubernetes' scores
METRIC = 3
VISIT = 4  # to visit a placed pod
WEIGHED = 6  # to add its value without rounding
REGEX = 20  # on a placed pod, whose annotations may be long
LONG_TEXT = 50  # another function of the text of an annotation there
MATCHES_REGEX = "call matches_regex"
_ANNOTATIONS = frozenset({f"{subject.value}.annotations" for subject in (Subject.POD, Subject.ITEM)})
_FRAGMENTATION = "call fragmentation"  # of all devices of a node
_WEIGHTS = {ops.IS_PRESENT.name: 0, ops.VALUE_OF: 0, ops.LOOKUP_PRESENT.name: 1, ops.SELECT.name: 0, ops.SEARCH: 10}
TEXTS = frozenset(f"call {function.name}" for function in CATALOGUE.functions() if isinstance(function.vector, texts.Kernel))
_PLUGINS = frozenset(f"call {function.name}" for function in CATALOGUE.functions() if function.plugin is not None)


def weight(node: Node) -> int:
    """The operations of one step for each node."""
    of_devices = node.stage is Stage.DEVICE or any(arg.stage is Stage.DEVICE for arg in node.args)
    return _weight(node) * (DEVICES if of_devices and not node.op.name.startswith(_FRAGMENTATION) else 1)


def _weight(node: Node) -> int:
    name = node.op.name
    if node.op is ops.LOOKUP:  # in a table that evaluates each string of the column once
        return MEMBER if node.args[0].op.name in {ops.MEMBERSHIP.name, ops.TABLE, "table satisfies"} else TEXT
    if name in _PLUGINS:
        return PLUGIN
    if name.startswith(_FRAGMENTATION):
        workload = node.args[-1].value
        return REQUEST * len(workload.requests) + PART_OF_DEVICE * len(fragmentation.distinct_devices(workload))
    if name.startswith("call "):
        return TEXT if name in TEXTS else max(CALL, 2 * len(node.args))
    if name.startswith("curve"):
        return max(4, len(node.args))
    return METRIC if name.startswith("metric ") else _WEIGHTS.get(name, OVER_DOMAINS if name.endswith(" per domain") else 1)


def selection_weight(node: Node) -> int:
    """The operations of a selection for each placed pod."""
    adds_up = len(selections.counted(node)) > 1  # values of placed pods are added or compared, and not only counted
    return VISIT + item_operations(node.args) + (WEIGHED if adds_up else 0)


def scanned(nodes: Iterable[Node]) -> int:
    """The operations for each placed pod that every decision takes at once: selections by a value that no step before it knows."""
    return sum(selection_weight(node) for node in nodes if selections.is_selection(node) and selections.is_scanned_at_once(node))


def item_operations(outputs: Iterable[Node]) -> int:
    """The number of operations of a program for one placed pod."""
    total, long = 0, set[int]()  # the nodes that may be long texts
    for node in ordered(outputs):
        reads_long = any(arg.number in long for arg in node.args)
        if node.op.name in _ANNOTATIONS or (reads_long and node.rep in {Rep.TEXT, Rep.OBJECT}):
            long.add(node.number)
        if node.stage is Stage.ITEM and node.op is not leaves.ITEM:
            total += REGEX if node.op.name == MATCHES_REGEX else LONG_TEXT if reads_long and node.op.name in TEXTS else 1
    return total

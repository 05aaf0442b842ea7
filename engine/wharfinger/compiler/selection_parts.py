"""Selections taken apart, so that who is being decided does not make anybody count all pods anew.

`pods where it.name != pod.name and it.priority > 3` selects other pods for each pod to be placed. But `it.name == pod.name` is true of few
placed pods, those that an index by name finds, and false of all others. So the counts of `it.priority > 3` are kept, for every pod to be
placed alike, and corrected by what the index finds. This holds for every comparison for equality of something of the placed pod with
something that tells pods of one template apart, wherever it stands in the predicate or in the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from wharfinger.compiler import leaves, ops
from wharfinger.compiler.ir import IDENTITY, Graph, Node, Op, Rep, Stage, ordered
from wharfinger.compiler.passes import again, fold_constants, simplify


class Lookup(Enum):
    """How a selection is answered for a pod to be placed."""

    KEPT = "kept counts"
    INDEX = "kept counts, and an index"
    PODS = "kept counts, for which each placed pod is asked"
    SCAN = "all placed pods, for each decision"


@dataclass(frozen=True, slots=True)
class Parts:
    """A selection that was taken apart.

    `others` is what is counted of pods for which no comparison holds, `few` what is counted of those that the comparisons find (a single
    comparison is taken to hold there). `by` is compared with `captured`, place by place; `of_classes` says that pods of one template are
    alike in all of it.
    """

    others: tuple[Node, ...]
    few: tuple[Node, ...]
    by: tuple[Node, ...]
    captured: tuple[Node, ...]
    of_classes: bool

    @property
    def operands(self) -> tuple[Node, ...]:
        """All of them, as operands of one operation."""
        return (*self.others, *self.few, *self.by, *self.captured)


@dataclass(frozen=True, slots=True)
class _Layout:
    outputs: int
    comparisons: int
    of_classes: bool


def is_selection(node: Node) -> bool:
    """Whether a node is a selection, taken apart or not."""
    return node.op.name == ops.SELECT.name


def parts(node: Node) -> Parts | None:
    """The parts of a selection that was taken apart; None for one that was not."""
    layout = node.op.key
    if not isinstance(layout, _Layout):
        return None
    n, m = layout.outputs, layout.comparisons
    args = node.args
    return Parts(args[:n], args[n : 2 * n], args[2 * n : 2 * n + m], args[2 * n + m :], layout.of_classes)


def lookup(node: Node) -> Lookup:
    """How a selection is answered."""
    apart = parts(node)
    if apart is None and any(is_passing(capture) for capture in captures(node.args)):
        return Lookup.SCAN
    if reads_identity(counted(node)):
        return Lookup.PODS
    return Lookup.KEPT if apart is None else Lookup.INDEX


def counted(node: Node) -> tuple[Node, ...]:
    """The program by which all pods are counted."""
    apart = parts(node)
    return node.args if apart is None else apart.others


def captures(outputs: Sequence[Node]) -> tuple[Node, ...]:
    """What a program over one placed pod needs that is known before, in order."""
    inner = [node for node in ordered(outputs) if node.stage is Stage.ITEM and node.op is not leaves.ITEM]
    needed = {arg.number: arg for node in inner for arg in node.args} | {node.number: node for node in outputs}
    return tuple(node for node in needed.values() if node.stage is not Stage.ITEM)


def is_passing(node: Node) -> bool:
    """Whether a value may be another one at the next decision about the same template: it reads the identity of the pod, or the time."""
    return node.stage is Stage.RUN or node.own


def reads_identity(outputs: Sequence[Node]) -> bool:
    """Whether a program may differ between placed pods of one template."""
    return any(node.stage is Stage.ITEM and node.op.key == IDENTITY for node in ordered(outputs))


def take_apart(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
    """The selection with its parts as operands; None where that is not needed, or would not do."""
    if node.op is not ops.SELECT or not any(is_passing(capture) for capture in captures(args)):
        return None
    comparisons = _comparisons(args)
    of_classes = not reads_identity(args)
    if not of_classes:
        comparisons = [comparison for comparison in comparisons if _of_one_pod(comparison[1])]
    if not comparisons:
        return None
    others = _assuming(graph, args, {equal.number: False for equal, _, _ in comparisons})
    if any(is_passing(capture) for capture in captures(others)):
        return None
    few = _assuming(graph, args, {comparisons[0][0].number: True}) if len(comparisons) == 1 else args
    found = Parts(others, few, tuple(by for _, by, _ in comparisons), tuple(captured for _, _, captured in comparisons), of_classes)
    op = Op(name=ops.SELECT.name, key=_Layout(len(args), len(comparisons), of_classes))
    return graph.apply(op, found.operands, Rep.OBJECT, at=Stage.RUN, volatility=node.volatility)


def _comparisons(outputs: Sequence[Node]) -> list[tuple[Node, Node, Node]]:
    """Each `by == captured` whose left side is of the placed pod alone, and whose right side passes."""
    found = []
    for node in ordered(outputs):
        if node.stage is not Stage.ITEM or node.op is not ops.EQ:
            continue
        for by, captured in (node.args, node.args[::-1]):
            if by.stage is Stage.ITEM and by.rep is Rep.TEXT and captured.stage is not Stage.ITEM:
                alone = all(capture.stage is Stage.CONST for capture in captures([by]))
                if alone and is_passing(captured):
                    found.append((node, by, captured))
    return found


def _of_one_pod(by: Node) -> bool:
    """Whether a text is the name, the uid or the node of the placed pod itself: few pods have the same."""
    (maybe,) = by.args if by.op.name == "given" else (by,)
    return maybe.op.key == IDENTITY and all(arg.op is leaves.ITEM for arg in maybe.args)


def _assuming(graph: Graph, outputs: Sequence[Node], known: Mapping[int, bool]) -> tuple[Node, ...]:
    """The outputs where some conditions are known."""
    done: dict[int, Node] = {}
    for node in ordered(outputs, skip=lambda node: node.stage is not Stage.ITEM):
        args = tuple(done.get(arg.number, arg) for arg in node.args)
        if node.number in known:
            done[node.number] = graph.const(known[node.number], Rep.BOOL)
        elif args == node.args:
            done[node.number] = node
        else:
            done[node.number] = simplify(graph, node, args) or fold_constants(graph, node, args) or again(graph, node, args)
    return tuple(done.get(output.number, output) for output in outputs)

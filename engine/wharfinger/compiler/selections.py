"""Selections of placed pods (`pods where …`): the counts of the model that they use, and the corrections for the pod to be placed.

The predicate is a small program over one placed pod. What it needs of the pod to be placed is captured when the selection is evaluated
and is part of the selection's key, so that pods with equal captured values share one set of counts.

`pods where it.name != pod.name and it.priority > 3` selects other pods for each pod to be placed. But `it.name == pod.name` is true of few
placed pods, which an index by name finds, and false of all others. So the counts of `it.priority > 3` are kept for every pod to be placed
alike, and corrected by the pods that the index finds (`split_selection`). This works for every equality between an attribute of the
placed pod and a value that differs between pods of one template, anywhere in the predicate or in the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from wharfinger.builtins.signature import AtRows
from wharfinger.compiler.graph import leaves, operations
from wharfinger.compiler.graph.ir import IDENTITY, Graph, Node, Op, Rep, Stage, ordered
from wharfinger.compiler.graph.operations import byte_code, expression
from wharfinger.compiler.graph.passes import again, fold_constants, simplify
from wharfinger.model.columns.pod_table import Placement, PodClass, ReadInSteps
from wharfinger.model.columns.selection import CorrectedSelection, Corrections, ReadExtreme, Selection
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.snapshot import Snapshot


class Lookup(Enum):
    """The ways to answer a selection for a pod to be placed."""

    KEPT = "kept counts"
    INDEX = "kept counts, and an index"
    PODS = "kept counts, for which each placed pod is asked"
    SCAN = "all placed pods, for each decision"


class SplitSelection(Struct, frozen=True):
    """A selection that is split by comparisons with values of the pod to be placed.

    `by[i]` is compared with `captured[i]`. `compared_outputs` is counted for the pods that the comparisons find (with one comparison, it is
    assumed to be true), `other_outputs` for all other pods. `by_template`: pods of one template give the same answers.
    """

    other_outputs: tuple[Node, ...]
    compared_outputs: tuple[Node, ...]
    by: tuple[Node, ...]
    captured: tuple[Node, ...]
    by_template: bool

    @property
    def operands(self) -> tuple[Node, ...]:
        """All of them, as operands of one operation."""
        return (*self.other_outputs, *self.compared_outputs, *self.by, *self.captured)


class _SplitLayout(Struct, frozen=True):
    outputs: int
    comparisons: int
    by_template: bool


def is_selection(node: Node) -> bool:
    """True if a node is a selection, split or not."""
    return node.op.name == operations.SELECT.name


def parts(node: Node) -> SplitSelection | None:
    """The parts of a split selection; None for one that is not split."""
    layout = node.op.key
    if not isinstance(layout, _SplitLayout):
        return None
    n, m = layout.outputs, layout.comparisons
    args = node.args
    return SplitSelection(args[:n], args[n : 2 * n], args[2 * n : 2 * n + m], args[2 * n + m :], layout.by_template)


def lookup(node: Node) -> Lookup:
    """The way to answer the selection."""
    split = parts(node)
    if split is None and any(varies_between_decisions(capture) for capture in captured_nodes(node.args)):
        return Lookup.SCAN
    if reads_identity(counted(node)):
        return Lookup.PODS
    return Lookup.KEPT if split is None else Lookup.INDEX


def is_scanned_at_once(node: Node) -> bool:
    """True if each decision asks all placed pods at once: the selection captures the time, so it cannot be read before in steps."""
    return lookup(node) is Lookup.SCAN and counting(node) is None


def is_fixed_for_template(node: Node) -> bool:
    """True if a selection is the same one at every decision about a template, as long as the pod itself is not placed."""
    return parts(node) is None and not any(capture.stage is Stage.RUN or capture.own for capture in captured_nodes(node.args))


def counted(node: Node) -> tuple[Node, ...]:
    """The program by which all pods are counted."""
    split = parts(node)
    return node.args if split is None else split.other_outputs


def captured_nodes(outputs: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes of earlier stages that a program over one placed pod needs, in order."""
    inner = [node for node in ordered(outputs) if node.stage is Stage.ITEM and node.op is not leaves.ITEM]
    needed = {arg.number: arg for node in inner for arg in node.args} | {node.number: node for node in outputs}
    return tuple(node for node in needed.values() if node.stage is not Stage.ITEM)


def varies_between_decisions(node: Node) -> bool:
    """True if the value may be another at the next decision about the same template: it reads the pod's identity, or the time.

    The labels of namespaces may change too, but do so seldom: counts are worth keeping.
    """
    if node.stage is not Stage.RUN:
        return node.own
    return node.own or any(inner.op.reads_cluster and inner.op.key != leaves.OF_NAMESPACES for inner in ordered([node]))


def reads_identity(outputs: Sequence[Node]) -> bool:
    """True if a program may give different answers for placed pods of one template."""
    return any(node.stage is Stage.ITEM and node.op.key == IDENTITY for node in ordered(outputs))


def split_selection(graph: Graph, node: Node, args: tuple[Node, ...]) -> Node | None:
    """The selection with its parts as operands; None if that is not needed or not possible."""
    if node.op is not operations.SELECT or not any(varies_between_decisions(capture) for capture in captured_nodes(args)):
        return None
    comparisons = _comparisons(args)
    by_template = not reads_identity(args)
    if not by_template:
        comparisons = [comparison for comparison in comparisons if _of_one_pod(comparison[1])]
    if not comparisons:
        return None
    other_outputs = _assuming(graph, args, {equal.number: False for equal, _, _ in comparisons})
    if any(varies_between_decisions(capture) for capture in captured_nodes(other_outputs)):
        return None
    compared_outputs = _assuming(graph, args, {comparisons[0][0].number: True}) if len(comparisons) == 1 else args
    found = SplitSelection(
        other_outputs,
        compared_outputs,
        tuple(by for _, by, _ in comparisons),
        tuple(captured for _, _, captured in comparisons),
        by_template,
    )
    op = Op(name=operations.SELECT.name, key=_SplitLayout(len(args), len(comparisons), by_template))
    return graph.apply(op, found.operands, Rep.OBJECT, at=Stage.RUN, volatility=node.volatility)


def _comparisons(outputs: Sequence[Node]) -> list[tuple[Node, Node, Node]]:
    """Each `by == captured` whose left side reads the placed pod alone, and whose right side `varies_between_decisions`."""
    found = []
    for node in ordered(outputs):
        if node.stage is not Stage.ITEM or node.op is not operations.EQ:
            continue
        for by, captured in (node.args, node.args[::-1]):
            if by.stage is Stage.ITEM and by.rep is Rep.TEXT and captured.stage is not Stage.ITEM:
                alone = all(capture.stage is Stage.CONST for capture in captured_nodes([by]))
                if alone and varies_between_decisions(captured):
                    found.append((node, by, captured))
    return found


def _of_one_pod(by: Node) -> bool:
    """True if a string is the name, uid or node of the placed pod: few pods have the same one."""
    (maybe,) = by.args if by.op.name == operations.VALUE_OF else (by,)
    return maybe.op.key == IDENTITY and all(arg.op is leaves.ITEM for arg in maybe.args)


def _assuming(graph: Graph, outputs: Sequence[Node], known: Mapping[int, bool]) -> tuple[Node, ...]:
    """The outputs with some conditions replaced by constants."""
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


class ItemProgram(Struct, frozen=True):
    """A computation about one placed pod.

    `captures` are the earlier values it needs, in order. `text` is equal for equal programs of any policies. `function` takes the captured
    values and the pod.
    """

    captures: tuple[Node, ...]
    function: Callable[[Sequence[Any], PodView], Any]
    text: str
    per_pod: bool

    def run(self, captured: Sequence[Any], pod: PodView) -> Any:
        """The result for one pod."""
        return self.function(captured, pod)


def item_program(output: Node) -> ItemProgram:
    """The program that computes a node for one placed pod."""
    return _program([output], "{0}")


def weight_program(outputs: Sequence[Node]) -> ItemProgram:
    """The program that computes the weight of a placed pod in a selection: 1 or its value; None if it is not selected or has no value.

    `outputs` are the operands of the selection: whether a pod is selected and, for sums, its value and whether that is present.
    """
    return _program(outputs, "1.0 if {0} else None" if len(outputs) == 1 else "{1} if {0} and {2} else None")


def _program(outputs: Sequence[Node], answer: str) -> ItemProgram:
    nodes = ordered(outputs)
    inner = [node for node in nodes if node.stage is Stage.ITEM and node.op is not leaves.ITEM]
    captures = captured_nodes(outputs)
    places = {node.number: place for place, node in enumerate(captures)}
    places |= {node.number: len(captures) for node in nodes if node.op is leaves.ITEM}
    places |= {node.number: len(captures) + 1 + step for step, node in enumerate(inner)}
    return ItemProgram(
        captures=captures,
        function=_function(inner, places, answer.format(*(f"v{places[node.number]}" for node in outputs)), len(captures)),
        text=_text(inner, places, outputs),
        per_pod=reads_identity(outputs),
    )


def _function(inner: Sequence[Node], places: dict[int, int], answer: str, n_captures: int) -> Callable[..., Any]:
    """The program as a Python function; `places` number the captured values, the pod and the result of each step."""
    names: dict[str, Any] = {"nan": math.nan}
    lines = [f"{''.join(f'v{place}, ' for place in range(n_captures))}= captured"] if n_captures else []
    for node in inner:
        place, arguments = places[node.number], [f"v{places[arg.number]}" for arg in node.args]
        if node.op.scalar is None:
            raise TypeError(f"{node.op.name} cannot be asked of a placed pod")
        names[f"f{place}"] = node.op.scalar
        call = f"f{place}({', '.join(arguments)})"
        lines.append(f"v{place} = {expression(node.op, arguments, at_row=False) or call}")
    source = "\n    ".join([f"def program(captured, v{n_captures}):", *lines, f"return {answer}"]) + "\n"
    exec(byte_code(source), names)  # noqa: S102 — the text is made from the operations above, never from a policy's own words
    program: Callable[..., Any] = names.pop("program")  # it refers to `names`, and without a cycle it is freed with its policy
    return program


def _text(inner: list[Node], places: dict[int, int], outputs: Sequence[Node]) -> str:
    lines = [f"{node.op.name} {node.op.key!r} {[places[arg.number] for arg in node.args]}" for node in inner]
    return "; ".join([*lines, f"{[places[node.number] for node in outputs]}"])


WeightOf = Callable[[PodView], float | None]


class _Counted:
    """The number that a placed pod counts in a selection; `captures` are all captured values of the selection."""

    def __init__(self, outputs: Sequence[Node], captures: Sequence[Node]) -> None:
        self._program = weight_program(outputs)
        self._places = [captures.index(capture) for capture in self._program.captures]
        self._passing = any(varies_between_decisions(capture) for capture in self._program.captures)

    def weigh(self, captured: Sequence[Any]) -> WeightOf:
        """The function that returns the weight of a pod, or None."""
        return partial(self._program.function, self._own(captured))

    def kept(self, snapshot: Snapshot, captured: Sequence[Any]) -> Selection:
        """The counts of the cluster's pods, which the model keeps up to date."""
        own = self._own(captured)
        key: Hashable = (self._program.text, own)
        value = partial(self._program.function, own)
        return snapshot.selection(key, None, per_pod=self._program.per_pod, value=value, passing=self._passing)

    def _own(self, captured: Sequence[Any]) -> tuple[Any, ...]:
        return tuple([captured[place] for place in self._places])


class _Comparison:
    """`by == captured` as an index: the pods that have the captured value."""

    def __init__(self, by: Node, captured: Node, captures: Sequence[Node]) -> None:
        program = item_program(by)
        constants = [capture.value for capture in program.captures]
        self._key: Hashable = (program.text, tuple(constants))
        self._value_of = lambda pod: program.run(constants, pod)
        self._place = captures.index(captured)

    def placements(self, snapshot: Snapshot, captured: Sequence[Any]) -> Collection[Placement]:
        """The pods with the captured value, if it differs between pods of a template."""
        return snapshot.placements_with(self._key, self._value_of, captured[self._place])

    def classes(self, snapshot: Snapshot, captured: Sequence[Any]) -> Collection[PodClass]:
        """The classes of pods with the captured value, if pods of a template share it."""
        return snapshot.classes_with(self._key, self._value_of, captured[self._place])

    def index(self, snapshot: Snapshot, *, by_template: bool) -> ReadInSteps:
        """The index that `classes` asks, or `placements`."""
        return snapshot.class_index(self._key, self._value_of) if by_template else snapshot.placement_index(self._key, self._value_of)


def select_kernel(node: Node) -> tuple[Callable[..., Selection | CorrectedSelection], tuple[Node, ...]]:
    """The kernel of a selection, `(frame, *captured) -> selection`, and the nodes that it captures.

    The pod being decided is not selected, even if the cluster has it already.
    """
    captures = captured_nodes(node.args)
    select = _select_kernel(node, captures)
    if not any(capture.stage is Stage.RUN for capture in captures):
        return select, captures

    def on_plain_values(frame: AtRows, *captured: Any) -> Selection | CorrectedSelection:
        """The kernel where a captured value was computed as a column is, for all rows alike: as an array without dimensions."""
        return select(frame, *(value.item() if isinstance(value, (np.ndarray, np.generic)) else value for value in captured))

    return on_plain_values, captures


Counting = Callable[[Callable[[], Snapshot], Sequence[Any]], Iterator[ReadInSteps]]
"""Yields what a selection reads of the placed pods, given its captured values; each is read before the next one is asked for."""


def counting(node: Node, extremes: Iterable[bool] = ()) -> tuple[Counting, tuple[Node, ...]] | None:
    """The reads of a selection from the placed pods, and the nodes that it captures; None if it captures values of a moment or a node.

    `extremes` says what is asked of the selection besides sums: True for the largest weights of nodes, False for the smallest ones.
    """
    captures = captured_nodes(node.args)
    if any(capture.stage is Stage.RUN for capture in captures):
        return None
    split = parts(node)
    if split is not None:
        return _SplitKernel(split, captures, extremes).counting, captures
    counted_pods = _Counted(node.args, captures)
    return lambda snapshot, captured: _read_of(counted_pods.kept(snapshot(), captured), extremes), captures


def _read_of(kept: Selection, extremes: Iterable[bool]) -> Iterator[ReadInSteps]:
    yield kept
    for highest in extremes:
        yield ReadExtreme(kept, highest)


def _select_kernel(node: Node, captures: tuple[Node, ...]) -> Callable[..., Selection | CorrectedSelection]:
    split = parts(node)
    if split is not None:
        return _SplitKernel(split, captures).select
    counted = _Counted(node.args, captures)

    def select(frame: AtRows, *captured: Any) -> Selection | CorrectedSelection:
        kept = counted.kept(frame.snapshot, captured)
        own = frame.snapshot.placement(frame.pod.uid) if frame.placed else None
        return kept if own is None else frame.snapshot.corrected(kept, Corrections({}, {own.pod.uid: (own, None)}))

    return select


class _SplitKernel:
    """The kernel of a split selection (`split_selection`)."""

    def __init__(self, split: SplitSelection, captures: Sequence[Node], extremes: Iterable[bool] = ()) -> None:
        self._extremes = extremes
        self._others = _Counted(split.other_outputs, captures)
        self._few = _Counted(split.compared_outputs, captures)
        self._comparisons = [_Comparison(by, captured, captures) for by, captured in zip(split.by, split.captured, strict=True)]
        self._of_classes = split.by_template

    def counting(self, snapshot: Callable[[], Snapshot], captured: Sequence[Any]) -> Iterator[ReadInSteps]:
        """Yield the kept counts and the indexes."""
        yield from _read_of(self._others.kept(snapshot(), captured), self._extremes)
        for comparison in self._comparisons:
            yield comparison.index(snapshot(), by_template=self._of_classes)

    def select(self, frame: AtRows, *captured: Any) -> Selection | CorrectedSelection:
        """The kernel."""
        snapshot = frame.snapshot
        kept = self._others.kept(snapshot, captured)
        placements: dict[str, tuple[Placement, float | None]] = {}
        classes: dict[int, tuple[PodClass, float | None]] = {}
        if self._of_classes:
            groups = {g.serial: g for comparison in self._comparisons for g in comparison.classes(snapshot, captured) if g.count}
            if groups:
                weigh = self._few.weigh(captured)
                classes = {serial: (group, weigh(group.example)) for serial, group in groups.items()}
        else:
            found = [placement for comparison in self._comparisons for placement in comparison.placements(snapshot, captured)]
            if found:
                weigh = self._few.weigh(captured)
                placements = {placement.pod.uid: (placement, weigh(placement.pod)) for placement in found}
        own = snapshot.placement(frame.pod.uid) if frame.placed else None
        if own is not None:
            placements[own.pod.uid] = (own, None)
        return snapshot.corrected(kept, Corrections(classes, placements)) if classes or placements else kept

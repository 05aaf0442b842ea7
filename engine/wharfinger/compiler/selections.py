"""Selections of placed pods when a policy runs: the predicate as a Python function, and the model's running counts for it.

The predicate of `pods where …` is a small program over one pod. What it needs of the pod to be placed is captured when the selection is
asked for and is part of the selection's key, so that pods whose captured values are equal share one set of counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wharfinger.builtins.context import AtRows
from wharfinger.compiler import leaves, ops, selection_parts
from wharfinger.compiler.ir import Node, Stage, ordered
from wharfinger.compiler.plain_code import INLINE, byte_code
from wharfinger.compiler.selection_parts import Parts
from wharfinger.model.corrected import CorrectedSelection, Corrections
from wharfinger.model.pod import PodView
from wharfinger.model.pod_table import Placement, PodClass
from wharfinger.model.selection import Selection
from wharfinger.model.snapshot import Snapshot

CALL, KNOWN, GIVEN = "{f}({all})", "{0} is not None", "{f} if {0} is None else {0}"


@dataclass(frozen=True, slots=True)
class ItemProgram:
    """A computation about one placed pod.

    `captures` are the earlier values it needs, in order; `text` is equal for equal programs whatever policy they come from; `function`
    takes the captured values and the pod.
    """

    captures: tuple[Node, ...]
    function: Callable[[Sequence[Any], PodView], Any]
    text: str
    per_pod: bool

    def run(self, captured: Sequence[Any], pod: PodView) -> Any:
        """What is computed of one pod."""
        return self.function(captured, pod)


def item_program(output: Node) -> ItemProgram:
    """The program that computes a node for one placed pod."""
    return _program([output], "{0}")


def weighing(outputs: Sequence[Node]) -> ItemProgram:
    """The program that says what a placed pod counts in a selection: 1 or its value, None where it is not selected or has no value.

    `outputs` are the operands of the selection: whether a pod is selected, and its value and whether that is present, if any.
    """
    return _program(outputs, "1.0 if {0} else None" if len(outputs) == 1 else "{1} if {0} and {2} else None")


def _program(outputs: Sequence[Node], answer: str) -> ItemProgram:
    nodes = ordered(outputs)
    inner = [node for node in nodes if node.stage is Stage.ITEM and node.op is not leaves.ITEM]
    captures = selection_parts.captures(outputs)
    places = {node.number: place for place, node in enumerate(captures)}
    places |= {node.number: len(captures) for node in nodes if node.op is leaves.ITEM}
    places |= {node.number: len(captures) + 1 + step for step, node in enumerate(inner)}
    return ItemProgram(
        captures=captures,
        function=_function(inner, places, answer.format(*(f"v{places[node.number]}" for node in outputs)), len(captures)),
        text=_text(inner, places, outputs),
        per_pod=selection_parts.reads_identity(outputs),
    )


def _function(inner: Sequence[Node], places: dict[int, int], answer: str, n_captures: int) -> Callable[..., Any]:
    """The program as Python code; `places` number the captured values, the pod and the result of each step."""
    names: dict[str, Any] = {"nan": math.nan}
    lines = [f"{''.join(f'v{place}, ' for place in range(n_captures))}= captured"] if n_captures else []
    for node in inner:
        place, arguments = places[node.number], [f"v{places[arg.number]}" for arg in node.args]
        template = GIVEN if node.op.name == "given" else KNOWN if node.op is ops.KNOWN else INLINE.get(node.op, CALL)
        names[f"f{place}"] = ops.ARBITRARY[node.rep] if template is GIVEN else node.op.scalar
        if node.op.scalar is None:
            raise TypeError(f"{node.op.name} cannot be asked of a placed pod")
        lines.append(f"v{place} = " + template.format(*arguments, f=f"f{place}", all=", ".join(arguments)))
    source = "\n    ".join([f"def program(captured, v{n_captures}):", *lines, f"return {answer}"]) + "\n"
    exec(byte_code(source), names)  # noqa: S102 — the text is made from the operations above, never from a policy's own words
    program: Callable[..., Any] = names["program"]
    return program


def _text(inner: list[Node], places: dict[int, int], outputs: Sequence[Node]) -> str:
    lines = [f"{node.op.name} {node.op.key!r} {[places[arg.number] for arg in node.args]}" for node in inner]
    return "; ".join([*lines, f"{[places[node.number] for node in outputs]}"])


Weigh = Callable[[PodView], float | None]


class _Counted:
    """What a placed pod counts in a selection, as a program whose captured values are among all `captures` of the selection."""

    def __init__(self, outputs: Sequence[Node], captures: Sequence[Node]) -> None:
        self._program = weighing(outputs)
        self._places = [captures.index(capture) for capture in self._program.captures]
        self._passing = any(selection_parts.is_passing(capture) for capture in self._program.captures)

    def weigh(self, captured: Sequence[Any]) -> Weigh:
        """The function that says what a pod counts, None for nothing."""
        return partial(self._program.function, self._own(captured))

    def kept(self, snapshot: Snapshot, captured: Sequence[Any]) -> Selection:
        """The running counts over the cluster's pods."""
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
        """The pods with the captured value, where it is another one for each pod."""
        return snapshot.placements_with(self._key, self._value_of, captured[self._place])

    def classes(self, snapshot: Snapshot, captured: Sequence[Any]) -> Collection[PodClass]:
        """The classes of pods with the captured value, where it is the same for all pods of a template."""
        return snapshot.classes_with(self._key, self._value_of, captured[self._place])


def select_kernel(node: Node) -> tuple[Callable[..., Selection | CorrectedSelection], tuple[Node, ...]]:
    """The kernel of a selection, `(frame, *captured) -> selection`, and the nodes of what it captures.

    The pod being decided is not selected, where the cluster has it already.
    """
    captures = selection_parts.captures(node.args)
    apart = selection_parts.parts(node)
    if apart is not None:
        return _Apart(apart, captures).select, captures
    counted = _Counted(node.args, captures)

    def select(frame: AtRows, *captured: Any) -> Selection | CorrectedSelection:
        kept = counted.kept(frame.snapshot, captured)
        own = frame.snapshot.placement(frame.pod.uid)
        return kept if own is None else frame.snapshot.corrected(kept, Corrections({}, {own.pod.uid: (own, None)}))

    return select, captures


class _Apart:
    """A selection that was taken apart (`selection_parts`)."""

    def __init__(self, apart: Parts, captures: Sequence[Node]) -> None:
        self._others = _Counted(apart.others, captures)
        self._few = _Counted(apart.few, captures)
        self._comparisons = [_Comparison(by, captured, captures) for by, captured in zip(apart.by, apart.captured, strict=True)]
        self._of_classes = apart.of_classes

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
        own = snapshot.placement(frame.pod.uid)
        if own is not None:
            placements[own.pod.uid] = (own, None)
        return snapshot.corrected(kept, Corrections(classes, placements)) if classes or placements else kept

"""PreFilter: what plugins say of a pod before any node is looked at.

As `RunPreFilterPlugins` (pkg/scheduler/framework/runtime/framework.go, Kubernetes 1.36): an unresolvable rejection ends the cycle at once,
after a resolvable one the other plugins still run (one may say that it is unresolvable), and sets of nodes are intersected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wharfinger.framework.extension import FilterPlugin
from wharfinger.framework.question import Question
from wharfinger.framework.verdict import Mask, NodeSet, PreFilterAnswer, Reason, Rejected

if TYPE_CHECKING:
    from wharfinger.model.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """The pod is refused as a whole, on every node: by which plugin, and why."""

    plugin: str
    reasons: tuple[Reason, ...]

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(reason.text for reason in self.reasons)

    @property
    def resolvable(self) -> bool:
        """Whether removing pods could help."""
        return all(reason.resolvable for reason in self.reasons)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The nodes worth a look, `(n_nodes,) bool`, and the plugins that said so; the others count as unresolvable for `reason`."""

    plugins: tuple[str, ...]
    mask: Mask

    @property
    def reason(self) -> Reason:
        """What is said of the nodes that were not chosen (schedule_one.go, `findNodesThatFitPod`)."""
        return Reason(f"node(s) didn't satisfy plugin(s) [{' '.join(self.plugins)}]", resolvable=False)


class Prepared(Protocol):
    """A filter whose PreFilter can be run."""

    plugin: FilterPlugin
    answer: PreFilterAnswer

    def prepare(self, asked: Question) -> bool:
        """Run PreFilter and keep its `answer`."""


def run(filters: Iterable[Prepared], asked: Question) -> tuple[Refusal | None, Chosen | None]:
    """Why the pod is refused as a whole, if it is; and the nodes worth a look, if not all are."""
    refusal: Refusal | None = None
    names: frozenset[str] | None = None
    plugins: list[str] = []
    for slot in filters:
        slot.prepare(asked)
        answer = slot.answer
        if isinstance(answer, Rejected):
            refusal = Refusal(slot.plugin.name, answer.reasons)
            if not answer.resolvable:
                return refusal, None
        elif isinstance(answer, NodeSet):
            plugins = sorted([*plugins, slot.plugin.name])
            names = answer.names if names is None else names & answer.names
            if not names:
                return Refusal(slot.plugin.name, (Reason(_nothing_left(plugins), resolvable=False),)), None
    return refusal, None if names is None else Chosen(tuple(plugins), _mask(names, asked.snapshot))


def _nothing_left(plugins: list[str]) -> str:
    if len(plugins) == 1:
        return f"node(s) didn't satisfy plugin {plugins[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously"


def _mask(names: frozenset[str], snapshot: Snapshot) -> Mask:
    mask = np.zeros(snapshot.n_nodes, np.bool_)
    for name in names:
        row = snapshot.row(name)
        if row is not None:
            mask[row] = True
    return mask

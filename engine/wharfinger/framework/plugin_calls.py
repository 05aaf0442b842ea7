"""Calls of plugins: measures their time, and turns exceptions and results of the wrong shape into faults.

The core has no clock. A `Decider` may be given a stopwatch that has one. Without it nothing is measured; decisions are the same either way.
Two clock readings per rule cost much compared with the update of a single row, so the stopwatch chooses for each decision whether to
measure it. Evaluations are always counted with a stopwatch: that costs one addition.

The methods of third-party plugins, and of the rules that they prepare, are wrapped: a fault becomes an error that names the plugin.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.errors import PluginContractError, PluginFault
from wharfinger.framework import extension, plugins
from wharfinger.framework.ports import BindFailed
from wharfinger.framework.prepared import (
    MAX_NODE_SCORE,
    MAX_REASONS,
    SKIP_ALWAYS,
    Affected,
    Changes,
    Mask,
    PreparedFilter,
    PreparedScore,
    Reason,
    Rejected,
    Rows,
    Skip,
)

if TYPE_CHECKING:
    from wharfinger.framework.eviction import Evictable, Supposition
    from wharfinger.model.state.snapshot import Snapshot


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class RuleStatistics(Struct):
    """The work of a rule so far: nodes it was evaluated on, nodes it rejected among these, and seconds."""

    evaluated: int = 0
    rejected: int = 0
    seconds: float = 0.0


class Slot(Protocol):
    """A plugin in a chain, with its statistics; None if they are not kept."""

    plugin: Any
    statistics: RuleStatistics | None


S = TypeVar("S", bound=Slot)
P = ParamSpec("P")
R = TypeVar("R")


class CallTimer:
    """The timer of the plugin calls of one decision; this one measures nothing.

    `by_policy` are the seconds of rules without a slot.
    """

    __slots__ = ()

    by_policy: Mapping[str, float] = MappingProxyType({})

    def each(self, point: str, slots: Iterable[S]) -> Iterable[S]:  # noqa: ARG002 — the point matters to `DecisionTimer`
        """The slots; the time between one and the next counts for the former, at an extension point."""
        return slots

    def mark(self, point: str) -> None:
        """Count the time since the last mark for an extension point."""

    def resume(self) -> None:
        """Count the time for the next mark from now on: other work was done since the last one."""

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:  # noqa: ARG002 — as above
        """The given rule of a policy, which has no slot (such as a key of its tie break)."""
        return rule

    def of_victims(self, allowed: Evictable) -> Evictable:
        """The pods that policies allow to evict, whose rules have no slot either."""
        rules = tuple(self.of_policy(policy, rule) for policy, rule in zip(allowed.policies, allowed.rules, strict=True))
        return replace(allowed, rules=rules) if rules else allowed

    def of_steps(self, policy: str, steps: Generator[None]) -> Generator[None]:
        """The steps of computing rules of a policy."""
        step = self.of_policy(policy, lambda: next(steps, ENDED))
        while step() is not ENDED:
            yield


ENDED = object()
NO_TIMER = CallTimer()


TimedCall = tuple[str, Slot, float]
"""Extension point, plugin and seconds; a plain tuple, as two dozen are made for a decision that is measured."""


class DecisionTimer(CallTimer):
    """The times of one decision: `calls` of plugins, `points` the seconds by extension point, `by_policy` those of rules without a slot.

    `whole` is true if the decision reused no earlier result.
    """

    __slots__ = ("_clock", "_since", "by_policy", "calls", "points", "whole")

    by_policy: dict[str, float]

    def __init__(self, clock: Callable[[], float], *, whole: bool) -> None:
        self._clock = clock
        self._since = clock()
        self.whole = whole
        self.calls: list[TimedCall] = []
        self.points: dict[str, float] = {}
        self.by_policy = {}

    def each(self, point: str, slots: Iterable[S]) -> Iterator[S]:
        """The slots, each measured until the caller takes the next."""
        for slot in slots:
            began = self._clock()
            try:
                yield slot
            finally:  # also when the caller stops the iteration
                self.calls.append((point, slot, self._clock() - began))

    def mark(self, point: str) -> None:
        """Count the time since the last mark for an extension point."""
        now = self._clock()
        self.points[point] = self.points.get(point, 0.0) + now - self._since
        self._since = now

    def resume(self) -> None:
        """Count the time for the next mark from now on."""
        self._since = self._clock()

    def of_policy(self, policy: str, rule: Callable[P, R]) -> Callable[P, R]:
        """The rule, measured at each call."""

        def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
            began = self._clock()
            try:
                return rule(*arguments, **named)
            finally:
                self.by_policy[policy] = self.by_policy.get(policy, 0.0) + self._clock() - began

        return wrapped


class Stopwatch(Protocol):
    """Measures the decisions of one profile."""

    def statistics_of(self, plugin: extension.Plugin) -> RuleStatistics | None:
        """The record of a plugin's statistics; None if they are not kept."""

    def begin_precomputing(self) -> CallTimer:
        """The timer of computing rules of policies in steps before a decision, from the beginning."""

    def begin(self, *, whole: bool, policies: Sequence[str], precomputed: CallTimer = NO_TIMER) -> CallTimer:
        """The timer of a decision that begins now. `whole`: no earlier result is reused. `policies`: names of those that govern the pod.

        `precomputed` is the timer of what was computed in steps before it, `NO_TIMER` if nothing was.
        """

    def ended(self, call_timer: CallTimer, status: str) -> None:
        """The decision of this timer has ended with a `Success` or as `Unschedulable`."""


# ── faults of third-party plugins ────────────────────────────────────────────────────────────────────────────────────────────────────

PluginT = TypeVar("PluginT", bound=extension.Plugin)
Answer = TypeVar("Answer")

WRAPPED = "_wrapped"

ANSWERS: Mapping[str, tuple[type, ...]] = {
    "may_help": (bool, np.bool_),
    "pre_enqueue": (Reason, type(None)),
    "prepare_filter": (PreparedFilter, Skip, Rejected),
    "post_filter": (extension.PostFilterOutcome,),
    "prepare_score": (PreparedScore, Skip),
    "reserve": (Reason, type(None)),
    "permit": (extension.Permission,),
    "pre_bind": (Reason, type(None)),
    "bind": (Reason, bool),
    "annotations": (Mapping,),
    "pod_devices": (tuple,),
    "shortage": (tuple,),
}
"""Types that a method may return, for methods other than filters and scores, whose results are checked separately."""


def with_faults_caught(plugin: PluginT) -> PluginT:
    """The same plugin, with its methods wrapped: an exception or an answer of the wrong type becomes a `PluginFault`.

    So do the methods of the rules that it prepares. Built-in plugins are not wrapped, nor are methods that a plugin does not override.
    """
    if is_third_party(plugin) and WRAPPED not in vars(plugin):
        object.__setattr__(plugin, WRAPPED, True)
        for name, (base, method) in calls().items():
            if isinstance(plugin, base) and getattr(type(plugin), name) is not method:
                wrap = _awaited if inspect.iscoroutinefunction(method) else _called
                object.__setattr__(plugin, name, wrap(plugin, name, getattr(plugin, name)))
    return plugin


def calls() -> Mapping[str, tuple[type[extension.Plugin], Callable[..., Any]]]:
    """Every method that the framework calls of a plugin, by name: the extension point's class and the method it has there."""
    own = extension.AnnotatingPlugin, extension.DevicePlugin  # which Kubernetes does not have
    bases: tuple[type[extension.Plugin], ...] = (extension.Plugin, *extension.POINTS.values(), *own)
    return {name: (base, method) for base in bases for name, method in calls_of(base).items()}


def calls_of(base: type) -> Mapping[str, Callable[..., Any]]:
    """The public methods that a class itself defines, by name."""
    return {name: method for name, method in vars(base).items() if inspect.isfunction(method) and not name.startswith("_")}


def is_third_party(plugin: extension.Plugin) -> bool:
    """True if a plugin is not one of the built-in ones."""
    return not type(plugin).__module__.startswith(f"{plugins.__name__}.")


def _called(plugin: extension.Plugin, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        answer = _checked(plugin.name, name, _call(plugin.name, name, method, *arguments))
        if isinstance(answer, PreparedFilter):
            return CheckedFilter(plugin.name, answer)
        if isinstance(answer, PreparedScore) and isinstance(plugin, extension.ScorePlugin):
            return CheckedScore(plugin.name, answer, plain=plugin.normalization is None)
        if isinstance(answer, Skip) and answer.is_valid is not None and answer is not SKIP_ALWAYS:
            return Skip(functools.partial(_call, plugin.name, "is_valid", answer.is_valid))
        return answer

    return call


def _call(plugin: str, name: str, method: Callable[..., Answer], *arguments: Any) -> Answer:
    """The result of a method; an exception becomes a `PluginFault`."""
    try:
        return method(*arguments)
    except Exception as error:
        raise _fault(plugin, name, error) from error


def _awaited(plugin: extension.Plugin, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def call(*arguments: Any) -> Any:
        try:
            answer = await method(*arguments)
        except BindFailed:  # an expected outcome of binding, not a fault
            raise
        except Exception as error:
            raise _fault(plugin.name, name, error) from error
        return _checked(plugin.name, name, answer)

    return call


def _fault(plugin: str, name: str, error: Exception) -> PluginFault:
    """The `PluginFault` for an error; an error that is a `PluginFault` already stays the same."""
    return error if isinstance(error, PluginFault) else PluginFault(plugin, name, error)


def _checked(plugin: str, name: str, answer: Any) -> Any:
    """`answer`, if the method may return it (see `ANSWERS`)."""
    if isinstance(answer, Rejected) and not answer.reasons:
        raise PluginFault(plugin, name, PluginContractError("it returned Rejected without a reason"))
    kinds = ANSWERS.get(name)
    if kinds is None or isinstance(answer, kinds):
        return answer
    expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    raise PluginFault(plugin, name, PluginContractError(f"it returned {type(answer).__name__}, not {expected}"))


# ── the rules that they prepare, checked ─────────────────────────────────────────────────────────────────────────────────────────────


class CheckedFilter(PreparedFilter):
    """A prepared filter of a third-party plugin, whose answers are checked."""

    def __init__(self, plugin: str, rule: PreparedFilter) -> None:
        self._plugin = plugin
        self._rule = rule
        self.reasons = _reasons(plugin, _call(plugin, "reasons", lambda: rule.reasons))
        self.nodes = rule.nodes
        self.domains = rule.domains
        if not isinstance(self.nodes, frozenset | None):
            raise PluginContractError(f"{plugin}.nodes is {type(self.nodes).__name__}, not a frozenset of node names or None")

    def bits(self, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """The verdicts, if they are an array of bits for which there are reasons."""
        bits = _call(self._plugin, "bits", self._rule.bits, snapshot, rows)
        found = _array(self._plugin, "bits", bits, _count(snapshot, rows), kinds="ub")
        self._check(int(found.max(initial=0)))
        return found

    def bits_at(self, snapshot: Snapshot, row: int) -> int:
        """The verdict, if there are reasons for its bits."""
        bits = _call(self._plugin, "bits_at", self._rule.bits_at, snapshot, row)
        if not isinstance(bits, int):
            raise PluginContractError(f"{self._plugin}.bits_at returned {type(bits).__name__}, not int")
        return self._check(bits)

    def affected(self, snapshot: Snapshot, changes: Changes) -> Affected:
        """The rows that may differ."""
        return _call(self._plugin, "affected", self._rule.affected, snapshot, changes)

    def supposing(self, supposed: Supposition) -> tuple[Reason, ...] | None:
        """The reasons against the supposed node."""
        return _call(self._plugin, "supposing", self._rule.supposing, supposed)

    def _check(self, bits: int) -> int:
        if bits >> len(self.reasons):
            raise PluginContractError(f"{self._plugin}.bits set bit {bits.bit_length() - 1}, but gave {len(self.reasons)} reason(s)")
        return bits


class CheckedScore(PreparedScore):
    """A prepared score of a third-party plugin, whose answers are checked; `plain`: its raw scores are points."""

    def __init__(self, plugin: str, rule: PreparedScore, *, plain: bool) -> None:
        self._plugin = plugin
        self._rule = rule
        self._plain = plain
        self.domains = rule.domains

    def raw(self, snapshot: Snapshot, rows: Rows) -> NDArray[Any]:
        """The raw scores, if they are finite, and points where they must be."""
        n_rows = _count(snapshot, rows)
        return self._checked(_call(self._plugin, "raw", self._rule.raw, snapshot, rows), n_rows)

    def raw_at(self, snapshot: Snapshot, row: int) -> float:
        """The raw score, checked in the same way."""
        raw = _call(self._plugin, "raw_at", self._rule.raw_at, snapshot, row)
        if type(raw) is int and 0 <= raw <= MAX_NODE_SCORE:
            return raw
        found: float = self._checked(np.array([raw]), 1).item()
        return found

    def affected(self, snapshot: Snapshot, changes: Changes, feasible: Mask, flipped: NDArray[np.intp]) -> Affected:
        """The rows that may differ."""
        return _call(self._plugin, "affected", self._rule.affected, snapshot, changes, feasible, flipped)

    def _checked(self, answer: Any, n_rows: int) -> NDArray[Any]:
        scores = checked_raw_scores(self._plugin, answer, n_rows)
        return checked_points(self._plugin, scores, n_rows) if self._plain else scores


def _count(snapshot: Snapshot, rows: Rows) -> int:
    return snapshot.n_nodes if isinstance(rows, slice) else len(rows)


def _reasons(plugin: str, found: Any) -> tuple[Reason, ...]:
    """The reasons of a filter, if they are `Reason` values and not too many."""
    if not isinstance(found, tuple) or not all(isinstance(reason, Reason) for reason in found):
        raise PluginContractError(f"{plugin}.reasons is not a tuple of Reason values: {found!r}")
    if len(found) > MAX_REASONS:
        raise PluginContractError(f"{plugin} has {len(found)} reasons; at most {MAX_REASONS} have a bit")
    return found


def checked_raw_scores(plugin: str, answer: Any, n_rows: int) -> NDArray[Any]:
    """`answer`, if it is an int64 or float64 array of `n_rows` finite raw scores."""
    scores = _array(plugin, "raw", answer, n_rows, kinds="if")
    if scores.dtype.kind == "f" and not (math.isfinite(scores.item()) if n_rows == 1 else np.isfinite(scores).all()):
        raise PluginContractError(f"{plugin}.raw returned a score that is not finite: {_first(~np.isfinite(scores), scores)}")
    return scores


def checked_points(plugin: str, answer: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """`answer`, an array of `n_rows`, if it holds integer points in 0..100."""
    if answer.dtype.kind != "i":
        raise PluginContractError(f"{plugin}.raw returned an array of {answer.dtype}, not of int64, and has no normalization")
    low, high = (answer.item(),) * 2 if n_rows == 1 else (answer.min(initial=0), answer.max(initial=0))
    if low < 0 or high > MAX_NODE_SCORE:
        culprit = _first((answer < 0) | (answer > MAX_NODE_SCORE), answer)
        raise PluginContractError(f"{plugin} gave a node {culprit} points; points are in 0..{MAX_NODE_SCORE}")
    return answer


def checked_whole_numbers(plugin: str, answer: Any, n_rows: int) -> NDArray[Any]:
    """`answer`, if it is an integer array of `n_rows` normalised scores."""
    return _array(plugin, "normalization", answer, n_rows, kinds="i")


def _array(plugin: str, point: str, answer: Any, n_rows: int, kinds: str) -> NDArray[Any]:
    if not isinstance(answer, np.ndarray):
        raise PluginContractError(f"{plugin}.{point} returned {type(answer).__name__}, not an array")
    if answer.shape != (n_rows,):
        raise PluginContractError(f"{plugin}.{point} returned an array of shape {answer.shape} for {n_rows} node(s)")
    if answer.dtype.kind not in kinds:
        expected = {"ub": "unsigned integers or bool", "if": "int64 or float64", "i": "int64"}[kinds]
        raise PluginContractError(f"{plugin}.{point} returned an array of {answer.dtype}, not of {expected}")
    return answer


def _first(culprits: NDArray[np.bool_], values: NDArray[Any]) -> Any:
    return values[culprits.argmax()].item()

"""The coverage of a policy's tests: the answers of its conditions, scores and preferences that some test produced.

A clause that no test ever made false has never been seen to reject anything; one whose missing case was never reached may surprise.
Whether a condition can be missing is in its type, so a coverage of 100 % is always possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct, field

from wharfinger.compiler.interpreter import SKIP, Interpreter
from wharfinger.language.report.diagnostics import Span
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.types import Type
from wharfinger.policies.scenario import Attempt, Scenario


class Truth(Enum):
    """The three answers of a condition."""

    TRUE = "true"
    FALSE = "false"
    MISSING = "missing"


class Covered(Struct, frozen=True, kw_only=True):
    """A clause, a `when` or a score: the answers its type allows, and those that some test produced."""

    policy: str
    rule: str
    at: Span
    possible: tuple[Truth, ...]
    seen: frozenset[Truth]

    @property
    def unseen(self) -> tuple[Truth, ...]:
        """The answers that no test produced."""
        return tuple(truth for truth in self.possible if truth not in self.seen)


def covered_fraction(coverage: Iterable[Covered]) -> float:
    """Answer produced per answers possible; 1 where there is nothing to cover."""
    points = list(coverage)
    possible = sum(len(point.possible) for point in points)
    return sum(len(point.seen & set(point.possible)) for point in points) / possible if possible else 1.0


class _Point(Struct):
    rule: str
    at: Span
    possible: tuple[Truth, ...]
    seen: set[Truth] = field(default_factory=set)


class Coverage:
    """The answers of one policy's clauses, guards, scores, preferences about devices and rules about victims."""

    def __init__(self, policy: typed.Policy) -> None:
        """Start without any answer."""
        self._policy = policy
        self._points = {id(part): _Point(rule, part.span, possible) for rule, part, possible in _parts(policy)}

    def points(self) -> tuple[Covered, ...]:
        """The answers so far, in the order of the file."""
        ordered = sorted(self._points.values(), key=lambda point: (point.at.start, point.at.end))
        return tuple(
            Covered(policy=self._policy.name, rule=point.rule, at=point.at, possible=point.possible, seen=frozenset(point.seen))
            for point in ordered
        )

    def record(self, attempt: Attempt) -> None:
        """Record the answers of every rule at every node when a pod was placed."""
        if not attempt.governed:
            return
        for row in range(attempt.snapshot.n_nodes):
            for rule in self._policy.filters:
                if self._applies(rule.when, attempt, row):
                    for clause, answer in attempt.interpreter.filter(rule, row):
                        self._points[id(clause)].seen.add(_truth(answer))
            for score in self._policy.scores:
                if self._applies(score.when, attempt, row) and (value := attempt.interpreter.score(score, row)) is not SKIP:
                    self._points[id(score)].seen.add(Truth.MISSING if value is None else Truth.TRUE)

        if attempt.devices and attempt.decision.row is not None:
            self._record_devices(attempt, attempt.decision.row)
        if attempt.preempting is not None:
            self._record_victims(attempt.preempting)

    def _record_devices(self, attempt: Attempt, row: int) -> None:
        """Record the values of the preferences for the devices of a node, if a pod got some of them."""
        for preference in self._policy.device_preferences:
            if self._applies(preference.when, attempt, row):
                for device in attempt.snapshot.devices.on(row):
                    if (value := attempt.interpreter.device_value(preference, row, device)) is not SKIP:
                        self._points[id(preference)].seen.add(Truth.MISSING if value is None else Truth.TRUE)

    def record_permits(self, scenario: Scenario) -> None:
        """Record the answers of the permits for every pod that is placed now."""
        for name in scenario.attempts if self._policy.permits else ():
            results = scenario.permits(name)
            if results is None:
                continue
            interpreter, row = results
            for permit in self._policy.permits:
                if permit.when is not None:
                    self._points[id(permit.when)].seen.add(_truth(interpreter.value(permit.when, row)))
                for clause, answer in interpreter.filter(permit, row):
                    self._points[id(clause)].seen.add(_truth(answer))

    def _record_victims(self, preempting: Interpreter) -> None:
        """Record the answers of the rules about victims for the pods that could be victims."""
        for row in range(preempting.snapshot.n_nodes):
            for placed in preempting.snapshot.pods_on(row):
                for rule in self._policy.victims if placed.priority < preempting.pod.priority else ():
                    self._points[id(rule)].seen.add(_truth(preempting.value(rule.condition, row, placed)))

    def _applies(self, when: typed.Expr | None, attempt: Attempt, row: int) -> bool:
        if when is None:
            return True
        answer = attempt.interpreter.value(when, row)
        self._points[id(when)].seen.add(_truth(answer))
        return answer is True


_Part = typed.Clause | typed.Score | typed.DevicePreference | typed.VictimRule | typed.Expr


def _parts(policy: typed.Policy) -> Iterator[tuple[str, _Part, tuple[Truth, ...]]]:
    """All parts that are covered: (rule, part, the answers its type allows). A score or preference has a value (TRUE) or is missing."""
    for rule in (*policy.filters, *policy.permits):
        if rule.when is not None:
            yield f"{rule.name} when", rule.when, _answers(rule.when.type)
        for clause in rule.clauses:
            yield rule.name, clause, _answers(clause.condition.type)
    valued: tuple[typed.Score | typed.DevicePreference, ...] = (*policy.scores, *policy.device_preferences)
    for score in valued:
        if score.when is not None:
            yield f"{score.name} when", score.when, _answers(score.when.type)
        yield score.name, score, (Truth.TRUE, Truth.MISSING) if score.value.type.optional else (Truth.TRUE,)
    for victim in policy.victims:
        yield "preemption", victim, _answers(victim.condition.type)


def _answers(type_: Type) -> tuple[Truth, ...]:
    return (Truth.TRUE, Truth.FALSE, Truth.MISSING) if type_.optional else (Truth.TRUE, Truth.FALSE)


def _truth(answer: object) -> Truth:
    return Truth.MISSING if answer is None else Truth.TRUE if answer else Truth.FALSE

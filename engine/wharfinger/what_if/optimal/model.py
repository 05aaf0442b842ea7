"""The model for CP-SAT: how many pods of each group are on each node, and how many are left over.

A group is the pods of one template, or those of several templates that are alike (`smaller_tasks`); a node can represent a class of nodes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Place: TypeAlias = tuple[bytes, str]
"""A group and a node."""
Solution: TypeAlias = Mapping[Place, int]
Masks: TypeAlias = Mapping[bytes, NDArray[np.bool_]]
"""The rows that may take pods of a group, (n_nodes,) bool."""
Amounts: TypeAlias = Mapping[str, NDArray[np.int64]]
"""(n_nodes,) amounts by resource; "pods" is the number of pods."""
NO_LIMIT = 1 << 62
"""The room of a node that takes any amount."""


class Answer(Enum):
    """The outcome of a search."""

    FOUND = "found"
    """A placement of all pods, which the chain confirms."""
    NONE = "none"
    """There is no placement of all pods."""
    UNKNOWN = "unknown"
    """Neither was found in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task: of each group its `size`, the requests of one pod, and the rows that may take one.

    `room` has (n_nodes,) amounts by resource; "pods" is the number of pods. `here` pods are on their nodes now and may stay there. Of each
    group `left_over` pods may be without a place. `most` limits how many pods of a group a node takes, where that is not room / amount.
    """

    size: Mapping[bytes, int]
    asks: Mapping[bytes, Mapping[str, int]]
    open_to: Masks
    here: Mapping[Place, int]
    room: Amounts
    names: Sequence[str]
    left_over: Mapping[bytes, int] = field(default_factory=dict)
    most: Mapping[Place, int] = field(default_factory=dict)


class Model:
    """The model of a task. `narrowed` is True once a solution was excluded for the sake of the chain."""

    def __init__(self, task: Task) -> None:
        from ortools.sat.python import cp_model  # noqa: PLC0415 — an extra

        self._cp = cp_model
        self._model: Any = cp_model.CpModel()
        self._here = task.here
        self._on: dict[Place, Any] = {}
        self._stays: dict[Place, Any] = {}
        self._left_over = {group: self._model.new_int_var(0, number, "") for group, number in task.left_over.items()}
        self._last: Solution = {}
        self._best = 0
        self.narrowed = False
        weights: defaultdict[tuple[str, int], list[tuple[int, Any]]] = defaultdict(list)
        for group, number in task.size.items():
            asked = {name: (amount, task.room[name].tolist()) for name, amount in task.asks[group].items() if amount and name in task.room}
            on = []
            for row, (name, is_open) in enumerate(zip(task.names, task.open_to[group].tolist(), strict=True)):
                present = task.here.get((group, name), 0)
                most = min(number, task.most.get((group, name), number)) if is_open else present
                if not most:
                    continue
                variable = self._on[group, name] = self._model.new_int_var(0, most, "")
                on.append(variable)
                weights["pods", row].append((1, variable))
                for resource, (amount, room) in asked.items():
                    if room[row] < NO_LIMIT:
                        weights[resource, row].append((amount, variable))
                if present:
                    self._keep(group, name, present, variable)
            self._model.add(sum(on) + self._left_over.get(group, 0) == number)
        for (resource, row), terms in weights.items():
            unit = math.gcd(*(amount for amount, _ in terms))
            self._model.add(sum(amount // unit * variable for amount, variable in terms) <= int(task.room[resource][row]) // unit)

    def _keep(self, group: bytes, name: str, present: int, variable: Any) -> None:
        """Count how many pods stay; the search begins with all of them where they are."""
        stay = self._stays[group, name] = self._model.new_int_var(0, present, "")
        self._model.add(stay <= variable)
        self._model.add_hint(variable, present)
        self._model.add_hint(stay, present)

    def hint(self, places: Solution) -> None:
        """Begin the search with these numbers of pods."""
        self._model.clear_hints()
        for place, variable in self._on.items():
            self._model.add_hint(variable, places.get(place, 0))

    def move_few(self) -> None:
        """From now on, look for the solution with the fewest moves; the last solution is where the search begins."""
        self.hint(self._last)
        self._model.maximize(sum(self._stays.values()))

    def guard(self, guarded: Solution, most: int) -> None:
        """At most `most` of the guarded pods of each group on each node may leave together; the others of a group leave first."""
        leaving = []
        for place, number in guarded.items():
            free = self._here[place] - number
            leaves = self._model.new_int_var(0, number, "")
            self._model.add(leaves >= self._here[place] - self._stays[place] - free)
            leaving.append(leaves)
        self._model.add(sum(leaving) <= max(0, most))

    def place_all(self, groups: Iterable[bytes]) -> None:
        """From now on, leave none of these groups over."""
        for group in groups:
            if group in self._left_over:
                self._model.add(self._left_over[group] == 0)

    def evict_few(self, groups: Sequence[bytes], seconds: float) -> tuple[Answer, int]:
        """Leave as few as possible of these groups over from now on: (FOUND for the fewest, UNKNOWN for what was found in time; how many).

        NONE if there is no solution, and -1 pods if none was found in time.
        """
        left_over = sum(self._left_over[group] for group in groups if group in self._left_over)
        self._model.minimize(left_over)
        status, solution = self.solve(seconds)
        self._model.clear_objective()
        if solution is None:
            return status, -1
        self._model.add(left_over <= self._best)
        self.hint(solution)
        return status, self._best

    def solve(self, seconds: float) -> tuple[Answer, Solution | None]:
        """(FOUND for the best solution, UNKNOWN for one or none in time, NONE if there is none; the solution)."""
        solver: Any = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        status = solver.solve(self._model)
        if status == self._cp.INFEASIBLE:
            return Answer.NONE, None
        if status not in {self._cp.OPTIMAL, self._cp.FEASIBLE}:
            return Answer.UNKNOWN, None
        solution = {place: number for place, variable in self._on.items() if (number := solver.value(variable))}
        self._last = solution
        self._best = round(solver.objective_value)
        return (Answer.FOUND if status == self._cp.OPTIMAL else Answer.UNKNOWN), solution

    def exclude(self, refused: Solution) -> bool:
        """Limit the number of pods of these groups on these nodes; False if the model has not put them there."""
        if not refused.keys() <= self._on.keys():
            return False
        self.narrowed = True
        for place, number in refused.items():
            self._model.add(self._on[place] <= number)
        return True

"""The model for CP-SAT: how many pods of each group are on each node, and how many are left over.

A group is the pods of one template, or those of several templates that are alike (`smaller_tasks`); a node can represent a class of nodes.
`Room` has what groups request and what each node has for them. Of devices it is how many fit each request alone. Its result is never too
low. The chain decides about constraints, counters that devices share, requests that compete for the same devices, alternatives, `All`,
claims of several pods, and devices that can be shared.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from wharfinger.framework.evaluation.cycle import Decider
from wharfinger.framework.plugins.devices.requests import KnownDemands
from wharfinger.framework.plugins.devices.shortage import devices_by_condition
from wharfinger.framework.plugins.node_resources import NodeResourcesFit
from wharfinger.model import objects
from wharfinger.model.state.device_states import DeviceStates
from wharfinger.simulate.placing import DirectPlacement

if TYPE_CHECKING:
    from wharfinger.framework.chain import Chain
    from wharfinger.model.objects.pod_view import PodView
    from wharfinger.model.state.cluster_state import ClusterState
    from wharfinger.model.state.snapshot import Snapshot

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


class Task(Struct, frozen=True, kw_only=True):
    """The task: of each group its `size`, the requests of one pod, and the rows that may take one.

    `room` has (n_nodes,) amounts by resource; "pods" is the number of pods. `here` pods are on their nodes now and may stay there. Of each
    group `left_over` pods may be without a place. `most` limits how many pods of a group a node takes, where that is not room / amount.
    """

    size: Mapping[bytes, int]
    requests: Mapping[bytes, Mapping[str, int]]
    open_to: Masks
    here: Mapping[Place, int]
    room: Amounts
    names: Sequence[str]
    left_over: Mapping[bytes, int] = field(default_factory=dict)
    most: Mapping[Place, int] = field(default_factory=dict)


class Model:
    """The model of a task. `narrowed` is True once a solution was excluded because the chain refused it."""

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
            asked = {
                name: (amount, task.room[name].tolist()) for name, amount in task.requests[group].items() if amount and name in task.room
            }
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
        """Look for the solution with the fewest moves from now on, beginning with the last solution."""
        self.hint(self._last)
        self._model.maximize(sum(self._stays.values()))

    def guard(self, guarded: Solution, limit: int) -> None:
        """Limit how many guarded pods of each group leave a node together to `limit`; the others of a group leave first."""
        leaving = []
        for place, number in guarded.items():
            free = self._here[place] - number
            leaves = self._model.new_int_var(0, number, "")
            self._model.add(leaves >= self._here[place] - self._stays[place] - free)
            leaving.append(leaves)
        self._model.add(sum(leaving) <= max(0, limit))

    def place_all(self, groups: Iterable[bytes]) -> None:
        """Require a place for every pod of these groups from now on."""
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


_KEY = msgspec.json.Encoder(order="deterministic").encode


class Room:
    """The room of a cluster for groups of pods, one pod of each in `one`; `here` pods of them have been taken from their nodes.

    `names` are the nodes by row. `requests` are the requests of a pod of each group, resources and devices; `amounts` what each node has of
    these, at least what the pods of `here` take. `allowed` are the rows that all filters let each group on, `static` those that no filter
    rejects for the sake of the node's object alone.
    """

    def __init__(self, chain: Chain, state: ClusterState, one: Mapping[bytes, PodView], here: Counter[Place]) -> None:
        self.names = state.snapshot().names
        self._rows = {name: row for row, name in enumerate(self.names)}
        requests: dict[bytes, Mapping[str, int]] = {}
        allowed, static = {}, {}
        decider = Decider(chain)
        for template, pod in one.items():
            claimed = DirectPlacement(state).claimed(pod)
            filtering = decider.decide(state.snapshot(), claimed).evaluation.filtering
            requests[template] = {**pod.requests, **_devices_of(claimed, state.snapshot())}
            allowed[template] = np.array(filtering.feasible, np.bool_)
            static[template] = filtering.by_object
        self.requests: Mapping[bytes, Mapping[str, int]] = requests
        self.allowed: Masks = allowed
        self.static: Masks = static
        self.amounts: Amounts = _amounts(chain, state.snapshot(), one, requests)
        used = self.taken(here.elements())
        self.amounts = {name: np.maximum(np.maximum(amounts, used[name]), 0) for name, amounts in self.amounts.items()}

    def taken(self, placed: Iterable[Place]) -> Amounts:
        """The amounts that pods of these groups use on these nodes."""
        taken = {name: np.zeros(len(self.names), np.int64) for name in self.amounts}
        for template, node in placed:
            row = self._rows[node]
            taken["pods"][row] += 1
            for name, amount in self.requests[template].items():
                if name in taken:
                    taken[name][row] += amount
        return taken


def _amounts(chain: Chain, snapshot: Snapshot, one: Mapping[bytes, PodView], requests: Mapping[bytes, Mapping[str, int]]) -> Amounts:
    """The free amounts on each node of devices, and of resources that a filter of the chain compares with requests."""
    fit = chain.plugin(NodeResourcesFit.name)
    wanted = {name for pod in one.values() for name in pod.requests if isinstance(fit, NodeResourcesFit) and fit.checks(name)}
    of_devices = {name for template, asked in requests.items() for name in asked if name not in one[template].requests}
    room = {"pods": np.array(snapshot.allowed_pods - snapshot.pod_count, np.int64)}
    for name in sorted(wanted):
        index = snapshot.resource_index(name)
        free = 0 if index is None else snapshot.allocatable[index] - snapshot.requested[index]
        room[name] = np.zeros(snapshot.n_nodes, np.int64) + free
    for name in sorted(of_devices):
        room[name] = np.array([NO_LIMIT if fits is None else fits for fits in _room_for(name, snapshot)], np.int64)
    return room


def _devices_of(pod: PodView, snapshot: Snapshot) -> Mapping[str, int]:
    """The number of devices that the pod needs for itself, by their requirements; its claims exist."""
    found: Counter[str] = Counter()
    for each in _requests(pod, snapshot):
        found[_KEY(replace(each, count=1)).decode()] += each.count or 1
    return found


def _requests(pod: PodView, snapshot: Snapshot) -> Iterator[objects.ExactDeviceRequest]:
    for use in pod.object.spec.resource_claims:
        name = pod.claim_name(use) if use.resource_claim_template_name is not None else None
        claim = None if name is None else snapshot.objects.get(objects.ResourceClaim, name, pod.namespace)
        for request in () if claim is None else claim.spec.devices.requests:
            own = request.exactly
            if own is not None and not own.admin_access and not own.wants_all:
                yield own


def _room_for(asked: str, snapshot: Snapshot) -> list[int | None]:
    """The number of free devices of each row that fit the requirements, a key of `_devices_of`; None without a limit."""
    exactly = msgspec.json.decode(asked, type=objects.ExactDeviceRequest)
    store = snapshot.objects
    if store.get(objects.DeviceClass, exactly.device_class_name) is None:
        return [0] * snapshot.n_nodes
    request = objects.DeviceRequest(name="devices", exactly=exactly)
    wanted = store.following(KnownDemands).of([objects.ResourceClaimSpec(devices=objects.DeviceClaim(requests=(request,)))])
    states, found = store.following(DeviceStates), dict[int, int | None]()
    ids = states.ids(snapshot)
    wanted.follow(states.epoch)
    for number in set(ids.tolist()):
        state = states.state(number)
        codes = [wanted.pool(pool) for pool in state.node.pools]
        shared = any(device.shareable and device.matches[0] is True for code in codes for device in code.codes)
        found[number] = None if shared else devices_by_condition(wanted, state.node, codes, state.usage)[0].left
    wanted.compact()
    return [found[number] for number in ids.tolist()]

"""The search: gets numbers from Optuna, runs trials with them, and returns the result.

The result is the same for any number of processes. A trial is requested when the results of all but the last `MAX_CONCURRENT_TRIALS` trials
before it are known. The sampler gets the results in the order of the trials. So the sampler has the same results at each request, whichever
trial ends first.

No process waits for another where that can be avoided. The first trials are submitted before Optuna is imported. When the numbers of the
best trial are put back one by one, the next step is submitted before the result of the present one is known.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.errors import UsageError, need_extra
from wharfinger.language.report.diagnostics import Source
from wharfinger.policies import policy_tests
from wharfinger.what_if.tune import trials
from wharfinger.what_if.tune import tunables as policy_numbers
from wharfinger.what_if.tune.objectives import Objective, refuse_unknown
from wharfinger.what_if.tune.trials import SearchSetup, Workload
from wharfinger.what_if.tune.tunables import Tunable
from wharfinger.what_if.tune.workloads import Measures, Waiting

if TYPE_CHECKING:
    import optuna

DEFAULT_TRIALS = 200
"""The default number of trials."""
MAX_TRIALS = 100_000
MAX_SEED = 2**32 - 1
"""The largest seed that NumPy's generators take."""
MAX_LOAD = 100
"""The largest number of pods to place for each one that is given."""
MAX_CONCURRENT_TRIALS = 16
"""Trials that may run at once."""
ORIGINAL_TRIAL = -1
"""The number of the trial with the policies as they are."""


class Trial(Struct, frozen=True, kw_only=True):
    """The values of the tunables and of the objectives, both in their order."""

    number: int
    values: tuple[float, ...]
    objectives: tuple[float, ...]


class Tuned(Struct, frozen=True, kw_only=True):
    """The outcome of a search.

    `front` are the trials (with `current`, the policies as they are) that no other one beats: as good in every objective, and better in
    one. `best` is the first of them by the objectives in their order, with the current values of those numbers that make no difference; it
    has the values of `current` where no trial is better. `held_out` are the objectives of `current` and of `best` on the data that was held
    out, None where nothing was. `change` is a unified diff of the files; `failing` are the titles of the policies' tests that fail with it
    and not without. `unusable` counts trials whose numbers no policy can have.
    """

    tunables: tuple[Tunable, ...]
    objectives: tuple[Objective, ...]
    searched: tuple[str, ...]
    held_out_workloads: tuple[str, ...]
    trials: tuple[Trial, ...]
    unusable: int
    current: Trial
    best: Trial
    held_out: tuple[tuple[float, ...], tuple[float, ...]] | None
    change: str
    failing: tuple[str, ...]

    @property
    def front(self) -> tuple[Trial, ...]:
        """The trials that no other beats, by their objectives; of equal ones the earliest."""
        first = {trial.objectives: trial for trial in reversed(self.every)}
        return tuple(trial for _, trial in sorted(first.items()) if not any(_beats(other, trial.objectives) for other in first))

    @property
    def every(self) -> tuple[Trial, ...]:
        """The policies as they are, and all trials in order; the best one with its final numbers."""
        return (self.current, *(self.best if trial.number == self.best.number else trial for trial in self.trials))

    @property
    def several_policies(self) -> bool:
        """True if the numbers are of more than one policy."""
        return len({tunable.policy for tunable in self.tunables}) > 1

    @property
    def is_better(self) -> bool:
        """True if the best trial is better than the current values on the searched data."""
        return self.best.values != self.current.values

    @property
    def worse(self) -> tuple[str, ...]:
        """The objectives in which the best trial is worse than the current values on the held-out data."""
        return tuple(goal.text for goal, old, new in self._held_out if new > old)

    @property
    def better(self) -> tuple[str, ...]:
        """The objectives in which the best trial is better than the current values on the held-out data."""
        return tuple(goal.text for goal, old, new in self._held_out if new < old)

    @property
    def _held_out(self) -> Sequence[tuple[Objective, float, float]]:
        return () if self.held_out is None else tuple(zip(self.objectives, *self.held_out, strict=True))


def need_optuna() -> None:
    """Raise UsageError if the extra is missing."""
    need_extra("optuna", "`wharf tune` needs Optuna", "tune")


def tuned(  # noqa: PLR0913, PLR0917 — the keywords are independent choices
    policies: Sequence[CompiledPolicy],
    tunables: Sequence[Tunable],
    objectives: Sequence[Objective],
    searched: Sequence[Workload],
    held_out: Sequence[Workload],
    where: Callable[[SearchSetup], AbstractContextManager[Executor]],
    *,
    n_trials: int = DEFAULT_TRIALS,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Tuned:
    """The outcome of `n_trials` trials, run on the executor of `where`; `advance` is called after each.

    Raises UsageError where there is nothing to search, no node has what an objective is about, the extra is missing, or the policies as
    they are cannot decide.
    """
    if not tunables:
        raise UsageError("the policies have no number to search: no param with a range, no weight that is a number")
    need_optuna()
    setup = _setup(policies, objectives, searched, held_out)
    clusters = [workload.cluster for workload in (*searched, *held_out) if isinstance(workload, Waiting)]
    if len(clusters) == len(searched) + len(held_out):  # what the nodes of a log have is known only as it is read
        refuse_unknown(setup.measures, [node for cluster in clusters for node in cluster.nodes])
    with where(setup) as executor:
        search = _Search(policies, tuple(tunables), tuple(objectives), setup, executor)
        search.submit_shipped()
        return search.run(_study(len(objectives), seed), n_trials, advance)


def _study(n_objectives: int, seed: int) -> optuna.Study:
    import optuna  # noqa: PLC0415 — `tuned` has found it, and it takes long to import

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    return optuna.create_study(directions=["minimize"] * n_objectives, sampler=sampler)


def _setup(
    policies: Sequence[CompiledPolicy], objectives: Sequence[Objective], searched: Sequence[Workload], held_out: Sequence[Workload]
) -> SearchSetup:
    given = []
    for policy in policies:
        defaults = {param.name: param.default for param in policy.policy.params}
        own = {name: value for name, value in policy.params.items() if defaults[name] != value}
        given.append((policy.policy.source.name, own))
    return SearchSetup(
        policies=tuple(given),
        imports={source.name: source.text for policy in policies for source in policy.policy.imports},
        searched=tuple(searched),
        held_out=tuple(held_out),
        measures=tuple(dict.fromkeys(name for goal in objectives for name in goal.measures)),
    )


class _Search:
    """One search; equal numbers are tried once."""

    def __init__(
        self,
        policies: Sequence[CompiledPolicy],
        tunables: tuple[Tunable, ...],
        objectives: tuple[Objective, ...],
        setup: SearchSetup,
        executor: Executor,
    ) -> None:
        self._setup = setup
        self._executor = executor
        self._current = tuple(tunable.current for tunable in tunables)
        sources = (source for policy in policies for source in (policy.policy.source, *policy.policy.imports))
        self._sources: Sequence[Source] = list({source.name: source for source in sources}.values())
        self._tunables = tunables
        self._objectives = objectives
        self._asked: dict[tuple[tuple[float, ...], bool], Future[Measures | str]] = {}

    def submit_shipped(self) -> None:
        """Submit the trials of the policies as they are."""
        self._submit(self._current)
        if self._setup.held_out:
            self._submit(self._current, held_out=True)

    def run(self, study: optuna.Study, n_trials: int, advance: Callable[[], None]) -> Tuned:
        """The outcome of a number of trials of the study."""
        found = list(self._trials(study, n_trials, advance))
        measures = self._submit(self._current).result()
        if isinstance(measures, str):
            raise UsageError(f"the policies cannot decide as they are: {measures}")
        current = Trial(number=ORIGINAL_TRIAL, values=self._current, objectives=self._values_of(measures))
        usable = [trial for trial in found if trial is not None]
        if all(math.isinf(value) for trial in (current, *usable) for value in trial.objectives):
            names = " and ".join(goal.text for goal in self._objectives)
            raise UsageError(f"--objective {names}: it has no value in any trial, as it divides by 0 or is too large")
        best = self._reduced(min((current, *usable), key=lambda trial: (trial.objectives, trial.number)))
        texts = self._texts(best.values)
        return Tuned(
            tunables=self._tunables,
            objectives=self._objectives,
            searched=tuple(map(str, self._setup.searched)),
            held_out_workloads=tuple(map(str, self._setup.held_out)),
            trials=tuple(usable),
            unusable=len(found) - len(usable),
            current=current,
            best=best,
            held_out=self._held_out(current, best) if self._setup.held_out else None,
            change=policy_numbers.change(self._sources, texts),
            failing=self._failing(texts),
        )

    def _trials(self, study: optuna.Study, n_trials: int, advance: Callable[[], None]) -> Iterator[Trial | None]:
        """The trials in order; None for one whose numbers no policy can have."""
        import optuna  # noqa: PLC0415 — `tuned` has found it

        grid: dict[str, optuna.distributions.BaseDistribution] = {}
        grid |= {tunable.name: optuna.distributions.IntDistribution(0, tunable.steps) for tunable in self._tunables}
        study.enqueue_trial({tunable.name: tunable.nearest(tunable.current) for tunable in self._tunables})
        running: deque[tuple[optuna.Trial, tuple[float, ...], Future[Measures | str]]] = deque()
        for number in range(n_trials + MAX_CONCURRENT_TRIALS):
            if len(running) == MAX_CONCURRENT_TRIALS or (number >= n_trials and running):
                asked, values, answer = running.popleft()
                measures = answer.result()
                if isinstance(measures, str):
                    study.tell(asked, state=optuna.trial.TrialState.FAIL)
                    yield None
                else:
                    reached = self._values_of(measures)
                    study.tell(asked, reached)
                    yield Trial(number=asked.number, values=values, objectives=reached)
                advance()
            if number < n_trials:
                asked = study.ask(grid)
                values = tuple(tunable.value(asked.params[tunable.name]) for tunable in self._tunables)
                running.append((asked, values, self._submit(values)))

    def _reduced(self, best: Trial) -> Trial:
        """The trial with every number at its current value that can be so without making it worse, by the objectives in their order."""
        last = len(self._tunables) - 1
        for place in range(len(self._tunables)):
            values = self._with_current(best.values, place)
            answer = self._submit(values)
            if place < last and not isinstance(self._executor, trials.InThisProcess):
                self._submit(self._with_current(best.values, place + 1))  # what follows unless this number may keep its value
            measures = answer.result()
            if not isinstance(measures, str) and self._values_of(measures) <= best.objectives:
                best = Trial(number=best.number, values=values, objectives=self._values_of(measures))
        return best

    def _with_current(self, values: tuple[float, ...], place: int) -> tuple[float, ...]:
        return (*values[:place], self._current[place], *values[place + 1 :])

    def _submit(self, values: tuple[float, ...], *, held_out: bool = False) -> Future[Measures | str]:
        if (values, held_out) not in self._asked:
            self._asked[values, held_out] = self._executor.submit(trials.run, self._texts(values), held_out)
        return self._asked[values, held_out]

    def _texts(self, values: tuple[float, ...]) -> dict[str, str]:
        named = {tunable.name: value for tunable, value in zip(self._tunables, values, strict=True)}
        return policy_numbers.edited(self._sources, self._tunables, named)

    def _values_of(self, measures: Measures) -> tuple[float, ...]:
        return tuple(goal.of(measures) for goal in self._objectives)

    def _held_out(self, *compared: Trial) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The objectives of two trials on what was held out."""
        answers = [self._submit(trial.values, held_out=True) for trial in compared]
        old, new = (answer.result() for answer in answers)
        if isinstance(old, str) or isinstance(new, str):
            raise UsageError(f"the policies cannot decide on what is held out: {old if isinstance(old, str) else new}")
        return self._values_of(old), self._values_of(new)

    def _failing(self, texts: Mapping[str, str]) -> tuple[str, ...]:
        """The tests of the policies that fail with these texts, and not with the current ones."""
        before, after = (
            {f"{result.policy}: {result.title}" for result in policy_tests.run(self._setup.typed(written)).results if not result.passed}
            for written in ({source.name: source.text for source in self._sources}, texts)
        )
        return tuple(sorted(after - before))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True if the first is as good in every objective and better in one."""
    return one != other and all(left <= right for left, right in zip(one, other, strict=True))

"""Runs trials in processes of this machine, on a Dask cluster, or in this process.

A process gets the workloads once; a trial is then the texts of the policies, and its answer the measures. A Dask cluster is reached through
the interface of `concurrent.futures`, so a search does not know where its trials run.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler import cost
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import UsageError, WharfingerError, need_extra
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics import typed
from wharfinger.what_if.tune.workloads import Measures, Recorded, Waiting

PLUGIN = "wharfinger-tune"
Workload = Waiting | Recorded
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class SearchSetup(Struct, frozen=True, kw_only=True):
    """The input that all trials of a search share.

    `policies` are (name of the source, values of params that are given); `imports` the texts of libraries by name; `measures` names.
    """

    policies: tuple[tuple[str, Mapping[str, Any]], ...]
    imports: Mapping[str, str]
    searched: tuple[Workload, ...]
    held_out: tuple[Workload, ...]
    measures: tuple[str, ...]

    def typed(self, texts: Mapping[str, str]) -> list[typed.Policy]:
        """The typed policies of these texts; raises PolicyError for one that does not compile."""
        known = {name: text.encode() for name, text in {**self.imports, **texts}.items()}
        return [_checked(TextSet(texts=known), name) for name, _ in self.policies]

    def compiled(self, texts: Mapping[str, str]) -> list[CompiledPolicy]:
        """The policies of these texts, ready to decide; raises PolicyError or UsageError."""
        given = [params for _, params in self.policies]
        return [cost.affordable(compile_policy(policy, params)) for policy, params in zip(self.typed(texts), given, strict=True)]

    def measured(self, texts: Mapping[str, str], *, held_out: bool) -> Measures:
        """The means of the measures over the workloads."""
        policies = self.compiled(texts)
        found = [workload.measured(policies, self.measures) for workload in (self.held_out if held_out else self.searched)]
        return {name: sum(measures[name] for measures in found) / len(found) for name in self.measures}


def _checked(texts: TextSet, name: str) -> typed.Policy:
    diagnostics = Diagnostics()
    policy = texts.check(name, CATALOGUE, diagnostics).policy
    if policy is None or diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return policy


_kept: list[SearchSetup] = []  # in a process that runs trials: the setup of its search


def keep(pickled: bytes) -> None:
    """Prepare this process for trials."""
    _kept[:] = [pickle.loads(pickled)]  # noqa: S301 — from the process that started this one


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """A context of the main thread in which Ctrl-C waits for the end, and is blocked for what is started."""
    noted: list[int] = []
    before = signal.signal(
        signal.SIGINT, lambda number, _frame: noted.append(number)
    )  # another thread may get it although it is blocked here
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
        if noted:
            signal.raise_signal(signal.SIGINT)


class _Process(SpawnProcess):
    """A process that Ctrl-C in the terminal does not reach, from its start on: it is for the process that starts this one."""

    def start(self) -> None:
        """Start it with the signal blocked, which it inherits."""
        with _interrupted_later():
            super().start()


class _Context(SpawnContext):
    """A context of multiprocessing that makes such processes, and lists them in `made`."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[_Process] = []

    def Process(self, *args: Any, **keywords: Any) -> _Process:  # type: ignore[override]  # noqa: N802 — the name is that of multiprocessing
        """A process that is not started yet."""
        made = _Process(*args, **keywords)
        self.made.append(made)
        return made


def _keep_in_child(pickled: bytes) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    keep(pickled)
    gc.freeze()  # the setup stays; without it, each full collection during a trial looks through all of it


def _end_with_parent() -> None:
    """End this process when the one that started it has ended. Without this, it would wait for trials forever if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run(texts: Mapping[str, str], held_out: bool) -> Measures | str:
    """The measures of a trial, or the reason why these policies cannot decide."""
    try:
        return _kept[0].measured(texts, held_out=held_out)
    except WharfingerError as error:
        return str(error)


class InThisProcess(Executor):
    """Runs submitted calls at once, in this process."""

    def submit(self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Answer]:
        """A future that has its answer."""
        future: Future[Answer] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 — raised by `result()`
            future.set_exception(error)
        return future


@contextmanager
def processes(setup: SearchSetup, jobs: int) -> Iterator[Executor]:
    """An executor for `run` with a number of processes; for 1, this process. UsageError if another process is killed.

    An exception, such as that of Ctrl-C, ends the processes at once: their trials may take long.
    """
    if jobs == 1:
        keep(pickle.dumps(setup))
        yield InThisProcess()
        _kept.clear()
        return
    context = _Context()
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_keep_in_child, initargs=(pickle.dumps(setup),))
    try:
        yield executor
    except BrokenProcessPool as error:
        raise UsageError(f"one of {jobs} processes was ended, perhaps because memory ran out; try fewer with --jobs") from error
    except BaseException:
        started = [process for process in context.made if process.pid is not None]
        for process in started:
            process.terminate()
        for process in started:
            process.join()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def need_dask() -> None:
    """Raise UsageError if the extra is missing."""
    need_extra("distributed", "--dask needs Dask", "dask")


@contextmanager
def dask(setup: SearchSetup, address: str) -> Iterator[Executor]:
    """An executor for `run` on a Dask cluster; UsageError if the extra is missing or no scheduler can be reached."""
    need_dask()
    import distributed  # noqa: PLC0415 — an extra

    try:
        client = distributed.Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(f"--dask {address}: there is no Dask scheduler: {error}") from error
    with client:
        client.register_plugin(_kept_on_workers(pickle.dumps(setup)), name=PLUGIN)
        try:
            with client.get_executor() as executor:
                yield executor
        finally:
            client.unregister_worker_plugin(PLUGIN)


def _kept_on_workers(pickled: bytes) -> Any:
    """The plugin that prepares each worker, also those that join later."""
    from distributed import WorkerPlugin  # noqa: PLC0415 — an extra

    class Keeping(WorkerPlugin):
        def setup(self, worker: Any) -> None:  # noqa: ARG002 — the signature is the plugin's
            keep(pickled)

        def teardown(self, worker: Any) -> None:  # noqa: ARG002 — as above
            _kept.clear()

    return Keeping()

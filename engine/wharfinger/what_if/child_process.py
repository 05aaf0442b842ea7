"""Computes one answer in a child process, while this process computes another.

The child is a fork: it has all objects of this process, so nothing is written out and read again for it. Its answer comes back through
a pipe, pickled. Objects that both processes have, such as the chain and the pods, are named in it and not copied.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from wharfinger.errors import UsageError, WharfingerError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)
STEPS_PER_MESSAGE = 100
"""Steps that the child reports together."""


def can_fork() -> bool:
    """Return True if this process may be forked, and the child has a core of its own: on Linux, in a process with one thread.

    A fork has no other threads, but the locks that they held. On macOS, libraries of the system fail in a fork.
    """
    return sys.platform == "linux" and threading.active_count() == 1 and len(os.sched_getaffinity(0)) > 1


class _Ended(Struct, frozen=True, kw_only=True):
    """The last message of a child."""

    answer: Any = None
    error: Exception | None = None


class _Pickler(pickle.Pickler):
    """Writes only the `id` of shared objects, which is the same in a process and its fork."""

    def __init__(self, buffer: io.BytesIO, shared: Mapping[int, object]) -> None:
        super().__init__(buffer)
        self._shared = shared

    def persistent_id(self, obj: object) -> int | None:
        """The `id` of a shared object; None for others, which are written."""
        return id(obj) if id(obj) in self._shared else None


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` has written, with the shared objects of this process."""

    def __init__(self, message: bytes, shared: Mapping[int, object]) -> None:
        super().__init__(io.BytesIO(message))
        self._shared = shared

    def persistent_load(self, pid: int) -> object:
        """The shared object with an `id`."""
        return self._shared[pid]


class Pending(Protocol[Answer_co]):
    """An answer that may still be computed."""

    def if_done(self) -> Answer_co | None:
        """The answer; None while it is computed. Raises what the computation raised."""

    def result(self) -> Answer_co:
        """The answer, which is waited for. Raises what the computation raised."""


class _Known(Struct, Generic[Answer]):
    """An answer that is there."""

    answer: Answer

    def if_done(self) -> Answer:
        """The answer."""
        return self.answer

    result = if_done


class _OfChild(Generic[Answer]):
    """An answer that a child process computes. It is a UsageError if the child is killed."""

    def __init__(self, process: BaseProcess, pipe: Connection, shared: Mapping[int, object], advance: Advance) -> None:
        self._process = process
        self._pipe = pipe
        self._shared = shared
        self._advance = advance
        self._ended: _Ended | None = None
        self._messages = select.poll()  # `Connection.poll` makes one for each question, which takes longer than the question
        self._messages.register(pipe, select.POLLIN)

    def if_done(self) -> Answer | None:
        """The answer; None while the child computes."""
        while self._ended is None and self._messages.poll(0):
            self._receive()
        return None if self._ended is None else self.result()

    def result(self) -> Answer:
        """The answer, once the child has it."""
        while self._ended is None:
            self._receive()
        if self._ended.error is not None:
            raise self._ended.error
        answer: Answer = self._ended.answer
        return answer

    def _receive(self) -> None:
        try:
            message = _Unpickler(self._pipe.recv_bytes(), self._shared).load()
        except EOFError:
            self._process.join()
            raise UsageError(
                f"the second process ended with code {self._process.exitcode} and without an answer, perhaps because memory ran out"
            ) from None
        if isinstance(message, _Ended):
            self._ended = message
        else:
            for said in message:
                self._advance(*said)


Advance = Callable[..., None]
"""Called after each step of a computation, with what it says about the step: plain values."""
Function = Callable[[Advance], Answer]
"""A computation; it is given an `Advance`."""


@contextmanager
def in_this_process(function: Function[Answer], _shared: Iterable[object], advance: Advance) -> Iterator[Pending[Answer]]:
    """A context with the answer of `function`, which is computed before the context begins."""
    yield _Known(function(advance))


@contextmanager
def in_child(function: Function[Answer], shared: Iterable[object], advance: Advance) -> Iterator[Pending[Answer]]:
    """A context with the answer of `function` as a child computes it. The child ends with the context at the latest.

    `advance` is called in this process once for each step, with the arguments that it has in the child. `shared` are objects that an
    answer may contain, and that stay the same in both processes.
    """
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    by_id = {id(value): value for value in shared}

    def send(message: object) -> None:
        buffer = io.BytesIO()
        _Pickler(buffer, by_id).dump(message)
        writing.send_bytes(buffer.getbuffer())

    def compute() -> None:
        reading.close()  # so that sending fails once the parent is gone
        with suppress(BrokenPipeError):
            _send_all(function, send)

    process = context.Process(target=compute, daemon=True)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the child inherits it: Ctrl-C is for the parent alone
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        writing.close()
    try:
        yield _OfChild(process, reading, by_id, advance)
    finally:
        process.kill()  # SIGTERM would run the handler that the child has from its parent
        process.join()
        reading.close()


def _send_all(function: Function[Any], send: Callable[[object], None]) -> None:
    """Send the steps of `function`, then its answer or its exception."""
    steps: list[tuple[object, ...]] = []

    def advance(*said: object) -> None:
        steps.append(said)
        if len(steps) == STEPS_PER_MESSAGE:
            send(steps)
            steps.clear()

    try:
        ended = _Ended(answer=function(advance))
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 — the parent raises it
        ended = _Ended(error=_sendable(error))
    send(steps)
    send(ended)


def _sendable(error: Exception) -> Exception:
    """An exception with the message of another that may not be picklable. An unexpected one keeps its traceback as text."""
    if isinstance(error, WharfingerError):
        return WharfingerError(str(error))
    return RuntimeError(f"{error!r} in the second process\n{traceback.format_exc()}")

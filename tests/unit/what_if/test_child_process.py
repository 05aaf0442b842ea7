"""An answer that a child process computes: its steps, its errors, and its end with the parent."""

import os
import signal
import time
from contextlib import suppress

import pytest

from wharfinger.errors import InvalidObject, UsageError, WharfingerError
from wharfinger.what_if.child_process import STEPS_PER_MESSAGE, in_child, in_this_process

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # the tests run beside threads of pytest
]


class Shared:
    """An object that cannot be pickled."""

    def __reduce__(self):
        raise TypeError


def computed(function, *shared, steps=lambda: None, compute=in_child):
    with compute(function, shared, steps) as pending:
        return pending.result()


@pytest.mark.parametrize("compute", [in_child, in_this_process])
@pytest.mark.parametrize("n_steps", [0, 1, STEPS_PER_MESSAGE, 2 * STEPS_PER_MESSAGE + 1])
def test_the_answer_comes_after_all_steps(compute, n_steps):
    counted = []

    def function(advance):
        for _ in range(n_steps):
            advance()
        return {"answer": n_steps}

    assert computed(function, steps=lambda: counted.append(None), compute=compute) == {"answer": n_steps}
    assert len(counted) == n_steps


@pytest.mark.parametrize("compute", [in_child, in_this_process])
def test_steps_say_what_they_did(compute):
    said = []
    steps = [(f"pod-{number}", None) for number in range(STEPS_PER_MESSAGE + 2)]
    computed(lambda advance: [advance(*step) for step in steps] and None, steps=lambda *step: said.append(step), compute=compute)
    assert said == steps


def test_shared_objects_are_named_and_not_copied():
    shared = Shared()
    answer, own = computed(lambda _advance: ([shared, "text"], os.getpid()), shared)
    assert answer[0] is shared
    assert answer[1] == "text"
    assert own != os.getpid()


def test_the_answer_is_there_once_the_child_is_done():
    with in_child(lambda _advance: "done", (), lambda: None) as pending:
        while (answer := pending.if_done()) is None:
            time.sleep(0.001)
        assert answer == pending.if_done() == pending.result() == "done"


def raising(error):
    def function(_advance):
        raise error

    return function


def test_an_expected_error_keeps_its_sentence():
    with pytest.raises(WharfingerError, match=r"^node a: no cpu$"):
        computed(raising(InvalidObject("node a: no cpu")))


def test_an_unexpected_error_has_its_traceback_as_text():
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError\('oh'\) in the second process\n(.|\n)*test_child_process\.py"):
        computed(raising(ZeroDivisionError("oh")))


def test_a_killed_child_is_a_clear_error():
    with pytest.raises(UsageError, match=r"^the second process ended with code -9 and without an answer, perhaps because memory ran out$"):
        computed(lambda _advance: os.kill(os.getpid(), signal.SIGKILL))


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def waiting_child(pipe):
    """A function that writes the id of its process to a pipe, and computes for ever."""

    def function(advance):
        os.write(pipe, f"{os.getpid()}\n".encode())
        while True:
            advance()
            time.sleep(0.001)

    return function


def test_the_child_ends_with_the_context():
    reading, writing = os.pipe()
    with suppress(KeyboardInterrupt), in_child(waiting_child(writing), (), lambda: None):
        pid = int(os.read(reading, 20))
        assert is_running(pid)
        raise KeyboardInterrupt
    assert not is_running(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_the_child():
    reading, writing = os.pipe()
    with in_child(waiting_child(writing), (), lambda: None) as pending:
        os.kill(pid := int(os.read(reading, 20)), signal.SIGINT)
        assert pending.if_done() is None
        time.sleep(0.05)
        assert is_running(pid)


def test_the_child_ends_when_its_parent_is_killed():
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        with in_child(waiting_child(writing), (), lambda: None) as pending:
            pending.result()
        os._exit(0)
    os.read(reading, 20)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    os.close(writing)
    assert os.read(reading, 1) == b""  # the end: no process has the other end of this pipe any more

"""Work that arrives while a thread waits is done in one batch, and none is lost when the thread ends."""

import threading

from wharfinger.event_loop import BatchThread


def test_work_is_called_once_for_what_came_meanwhile_and_for_what_is_left_at_the_end():
    done, called = [], threading.Event()

    def work():
        done.append("work")
        called.set()

    thread = BatchThread("test", 0.05, work, lambda: done.append("end"))
    for _ in range(3):
        thread.wake()
    assert called.wait(10)
    assert not thread.is_closing
    thread.close(10)
    assert thread.is_closing
    assert done == ["work", "work", "end"]


def test_a_thread_that_was_never_woken_ends_too():
    done = []
    thread = BatchThread("test", 60.0, lambda: done.append("work"), lambda: done.append("end"))
    thread.close(10)
    assert done == ["work", "end"]

"""When Python looks for garbage.

Nearly everything here is freed when its last user lets go; only a little hangs together in circles. To find that, Python looks at every
object there is with all threads standing still, a tenth of a second for a large cluster, whenever enough objects are new: in the middle
of a burst of pods, or of a reload of policies. So young garbage is collected as always, and the look at everything waits for a quiet
moment.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from wharfinger.framework.ports import Clock

NEVER = 1_000_000_000
LOOK = 1.0
"""Seconds between two looks whether it is quiet."""
WORTH_IT = 70_000
"""New objects that make a full collection worth while in a quiet moment."""
OVERDUE = 2_000_000
"""New objects that make it due at any moment."""


@contextmanager
def postponed() -> Iterator[None]:
    """A context in which Python starts no full collection by itself."""
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def collect_in_quiet(quiet: Callable[[], bool], clock: Clock) -> None:
    """None, when cancelled: collects garbage when it is `quiet`, and in spite of that when there may be too much of it."""
    with postponed():
        while True:
            await clock.sleep(LOOK)
            grown = _grown()
            if grown >= OVERDUE or (grown >= WORTH_IT and quiet()):
                gc.collect()


def _grown() -> int:
    """About how many objects there are more than at the last full collection: as many as went through the two young generations."""
    young, middle, _ = gc.get_threshold()
    return gc.get_count()[2] * young * middle

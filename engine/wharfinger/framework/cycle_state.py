"""What the points of one plugin tell each other about one pod.

Kubernetes keeps a `CycleState` per scheduling cycle. Here cycles of pods of one template share their work, so the state lives as long as
the remembered result of that template: whatever PreFilter or PreScore writes may be read by every later call for that template, until the
point runs again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class CycleState(dict[Hashable, Any]):
    """A dict from a plugin's own key (its name, or a tuple that starts with it) to whatever it needs later.

    Policies are named by whoever writes them, so their keys are the policies and rules themselves: no name of one can ever equal a key of
    a plugin.
    """

    __slots__ = ()

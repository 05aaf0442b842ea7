"""The cordons of a rebalance: each carries an annotation that says who set it and when.

A process that is killed cannot open the nodes that it has cordoned. The annotation is written together with the cordon, so that whoever
looks later can tell these nodes from those that an administrator has cordoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wharfinger.language.report import wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wharfinger.model.state.snapshot import Snapshot

CORDONED_BY = "wharfinger.dev/cordoned-by"
MOST_NAMED = 5


def left_cordons(snapshot: Snapshot) -> Mapping[str, str]:
    """Who cordoned them, by the names of the nodes that a rebalance has cordoned and nobody has opened; sorted by name."""
    closed = (snapshot.node(row).object.metadata for row in np.flatnonzero(snapshot.unschedulable).tolist())
    found = {node.name: node.annotations[CORDONED_BY] for node in closed if CORDONED_BY in node.annotations}
    return dict(sorted(found.items()))


def sentence(left: Mapping[str, str]) -> str:
    """What to do about cordons that are left."""
    owners = ", ".join(sorted(set(left.values())))
    return (
        f"still cordoned by another rebalance ({owners}): {wording.capped([*left], MOST_NAMED)}; "
        "if it does not run any more, open them with wharf rebalance --live --undo-cordons"
    )

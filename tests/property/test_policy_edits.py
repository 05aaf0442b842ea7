"""After any edits of files, each policy in force is its last good version."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policies.stores import BROKEN, World, policy

KEYS = ("a.policy", "b.policy", "c.policy")
LABELS = ("one", "two", "three")

edits = st.one_of(
    st.tuples(st.sampled_from(KEYS), st.sampled_from((*LABELS, "broken", "failing", "empty", "removed"))),
    st.sampled_from([("", "lost"), ("", "restart")]),
)


def content(key, what):
    name = key.removesuffix(".policy")
    if what == "failing":
        return policy(name, "one", test="other")
    return {"broken": BROKEN, "empty": ""}.get(what) or ("" if what == "empty" else policy(name, what))


class Model:
    """The files in the folder, and the expected policies: the last good label of each file, unless it was removed on purpose."""

    def __init__(self):
        self.files = {}
        self.good = {}

    def edit(self, key, what):
        if what == "removed":
            self.files.pop(key, None)
            if self.files:  # nothing at all is a folder that has gone, and not the wish for no rules
                self.good = {kept: label for kept, label in self.good.items() if kept in self.files}
            return
        self.files[key] = what
        self.good = {kept: label for kept, label in self.good.items() if kept in self.files}
        if what in LABELS:
            self.good[key] = what


async def follow(steps, folder):
    model, world = Model(), World(state=folder)
    for key, what in steps:
        if what == "lost":
            await world.mark_unreadable()
            continue
        if what == "restart":
            world = World(state=folder)
        else:
            model.edit(key, what)
        await world.offer({name: content(name, kind) for name, kind in model.files.items()})
        held = {f"{name}.policy": label for name, label in world.deciding().items()}
        assert held == model.good


@settings(max_examples=40, deadline=None)
@given(st.lists(edits, min_size=1, max_size=12))
def test_the_last_good_version_of_each_policy_is_in_force(steps):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow(steps, Path(folder)))

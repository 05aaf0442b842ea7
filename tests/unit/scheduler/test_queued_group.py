"""The counts that a queued group keeps equal those computed from all members."""

import random

import pytest

from tests.unit.scheduler.running import view
from tests.work import calls
from wharfinger.framework.chain import assemble
from wharfinger.scheduler.profiles import Profile
from wharfinger.scheduler.queued_pods import QueuedGroup, QueuedPod

PROFILE = Profile("one", assemble())


def member(number, priority):
    pod = view(f"m-{number}", priority=priority)
    return QueuedPod(pod=pod, profile=PROFILE, sort_key=PROFILE.sort_key(pod), first_seen=0.0, waits_since=0.0, queued_at=0.0)


@pytest.mark.parametrize("seed", range(20))
def test_leader_and_kinds_are_those_of_the_members_after_any_sequence_of_changes(seed):
    chance = random.Random(seed)
    first = member(0, 0)
    group = QueuedGroup(
        key="default/g", pod=first.pod, profile=first.profile, sort_key=first.sort_key, first_seen=0.0, waits_since=0.0, queued_at=0.0
    )
    for _ in range(60):
        match chance.choice(["add", "add", "again", "out", "replace"] if chance.random() < 0.9 else ["empty"]):
            case "add":
                group.add(member(chance.randrange(8), chance.randrange(3)))
            case "again" if group.members:
                group.add(chance.choice(list(group.members.values())))
            case "out":
                uid = f"uid-m-{chance.randrange(8)}"
                was_there = uid in group.members
                assert group.take_out(uid) == was_there
            case "replace":
                group.replace(dict(list(group.members.items())[: chance.randrange(4)]))
            case "empty":
                group.replace({})
            case _:
                pass
        there = list(group.members.values())
        assert sorted(pod.template for pod in group.kinds) == sorted({each.pod.template for each in there})
        if there:
            assert group.leader is max(there, key=lambda each: each.pod.priority)


def member_like_no_other(number):
    """A member with a template of its own, as those of an indexed Job have."""
    pod = view(f"m-{number}", labels={"batch.kubernetes.io/job-completion-index": str(number)})
    return QueuedPod(pod=pod, profile=PROFILE, sort_key=PROFILE.sort_key(pod), first_seen=0.0, waits_since=0.0, queued_at=0.0)


def test_a_change_after_each_member_that_leaves_takes_no_look_at_all_others_each():
    def work(count):
        there = [member_like_no_other(number) for number in range(count)]
        first = there[0]
        group = QueuedGroup(
            key="default/g", pod=first.pod, profile=first.profile, sort_key=first.sort_key, first_seen=0.0, waits_since=0.0, queued_at=0.0
        )
        for each in there:
            group.add(each)

        def leave():
            for each in there[:-1]:
                group.take_out(each.uid)
                assert next(iter(group.kinds))

        return calls(leave)

    assert work(400) < 4.5 * work(100)


@pytest.mark.parametrize("priorities", [[0], [5, 0]])
def test_members_that_leave_in_sequence_take_no_look_at_all_others_each(priorities):
    def work(count):
        there = [member(number, priorities[number % len(priorities)]) for number in range(count)]
        first = there[0]
        group = QueuedGroup(
            key="default/g", pod=first.pod, profile=first.profile, sort_key=first.sort_key, first_seen=0.0, waits_since=0.0, queued_at=0.0
        )
        for each in there:
            group.add(each)

        def leave():
            for each in there[:-1]:
                group.take_out(each.uid)
                assert group.leader

        return calls(leave)

    assert work(400) < 4.5 * work(100)

"""A policy that takes too long to decide: its pods wait, with the reason, all others continue, and it is tried again."""

import asyncio
import re

import pytest

from tests.in_memory import ManualClock
from tests.unit.policies.slow_rules import slow_rule
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import RACK, gang, member
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble, with_policies
from wharfinger.model.state.snapshot import Snapshot
from wharfinger.policies import scans as placed_pod_scans
from wharfinger.policies.budget import STEADY_AFTER, SUSPEND_AFTER, SUSPEND_AT, SUSPENDED, Allowance, BudgetSettings, PolicyBudget
from wharfinger.scheduler.scheduler import SchedulerSettings

SLOW = 0.05
BUDGET = 0.02
SCOPE = 'for pods where pod.labels["team"] == "slow"'
TEXTS = {
    "a filter": 'filter f { require node.pod_count < 100 else "full" }',
    "a filter beside a permit": 'filter f { require node.pod_count < 100 else "full" }\n'
    'permit open { require node.labels["open"] == "yes" on missing reject }',
    "a score": "score s = clamp(node.pod_count, 0, 100)",
    "a tie break": "tie_break node.pod_count asc",
    "preemption": "preemption { never_evict when it.priority > -50 }",
}


class Slowed:
    """A chain whose policy `slow` takes a while in one of its rules, by the clock of the test."""

    def __init__(self, rule, seconds=SLOW, quick=("quick",)):
        self.seconds = seconds
        self.clock = None
        self.asked = 0
        self.raises = False
        policies = [policy(f'policy "slow"\n{SCOPE}\n{TEXTS[rule]}'), *(policy(f'policy "{name}"\n{TEXTS["a filter"]}') for name in quick)]
        self.chain = assemble(policies)
        rules = next(found for found in self.chain.rules if found.policy.name == "slow")
        if rule.startswith("a filter"):
            slow_rule(rules.filters[0], "prepare_filter", ("bits", "bits_at"), self.take)
        elif rule == "a score":
            slow_rule(rules.scores[0].plugin, "prepare_score", ("raw", "raw_at"), self.take)
        elif rule == "a tie break":
            self.slow(rules.tie_breaks[0], "best")
        else:
            self.slow_victims(rules.policy.victims)

    def slow(self, owner, name):
        usual = getattr(owner, name)

        def slower(*arguments):
            self.take()
            return usual(*arguments)

        setattr(owner, name, slower)

    def slow_victims(self, victims):
        usual = victims.allowed

        def allowed(*arguments):
            rule = usual(*arguments)

            def asked(placed):
                self.take()
                return rule(placed)

            return asked

        victims.allowed = allowed

    def take(self):
        self.asked += 1
        self.clock.move(self.seconds)
        if self.raises:
            raise RuntimeError("the rule is broken")


def settings(clocks, seconds=BUDGET):
    timer = lambda: clocks[0].monotonic()  # noqa: E731, PLW0108 — the clock is there only later
    return SchedulerSettings(budget=BudgetSettings(seconds=seconds, timer=timer))


def slow_pod(name, **more):
    return pod(name, cpu="10m", labels={"team": "slow"}, **more)


async def bound(world):
    await world.calm()
    return {name.removeprefix("default/") for name in world.cluster.nodes_of_pods()}


def notes(world, name):
    return [event.note for key, event in world.cluster.events if key == f"default/{name}" and event.reason == "FailedScheduling"]


def story(rule, scenario, *, seconds=SLOW, budget=BUDGET):
    """Run a slow policy on equal nodes with a pod of low priority on each."""

    async def run():
        slowed, clocks = Slowed(rule, seconds), []
        things = [each for name in "abcdef" for each in (node(name, labels={RACK: "one"}), pod(f"low-{name}", nodeName=name, priority=-9))]
        async with running(*things, chains={"wharfinger": slowed.chain}, settings=settings(clocks, budget)) as world:
            clocks.append(world.clock)
            slowed.clock = world.clock
            await scenario(world, slowed)

    asyncio.run(run())


async def exceeded(world, rule, count=SUSPEND_AFTER + 1):
    """Have the policy exceed its budget: by one decision that is only found to be slow, and that many that are measured."""
    for number in range(count):
        cpu = f"{3_900 + number}m" if rule == "preemption" else "10m"
        world.cluster.put(pod(f"first-{number}", cpu=cpu, labels={"team": "slow"}))
        await world.calm()


@pytest.mark.parametrize("rule", TEXTS)
def test_a_policy_that_takes_too_long_is_suspended_whatever_rule_it_is(rule):
    async def scenario(world, slowed):
        await exceeded(world, rule)
        assert [key[0] for key in world.scheduler.budget.suspended] == ["slow"]
        asked = slowed.asked
        world.cluster.put(slow_pod("late"))
        world.cluster.put(pod("other", cpu="10m"))
        await world.calm()
        there = await bound(world)
        assert "other" in there
        assert "late" not in there
        [note] = notes(world, "late")
        assert re.match(r'policy "slow" is suspended: it took \d+ ms of a decision and may take 20 ms; pods that it governs wait', note)
        assert slowed.asked == asked
        assert world.cluster.pod("default/late").status.conditions[0].message == note
        assert {queued.pod.name for queued in world.scheduler.queue if SUSPENDED in queued.rejectors} == {f"first-{SUSPEND_AFTER}", "late"}

    story(rule, scenario)


def test_only_several_times_in_a_row_count():
    async def scenario(world, slowed):
        for number in range(4 * SUSPEND_AFTER):
            slowed.seconds = SLOW if number % SUSPEND_AFTER else 0.0
            world.cluster.put(slow_pod(f"pod-{number}", priority=number))
            await world.calm()
        assert world.scheduler.budget.suspended == {}

    story("a filter", scenario)


def test_one_decision_far_above_the_budget_suspends_a_watched_policy():
    async def scenario(world, _slowed):
        world.cluster.put(slow_pod("first"))
        await world.calm()
        assert world.scheduler.budget.suspended == {}
        world.cluster.put(slow_pod("second", priority=1))
        await world.calm()
        assert len(world.scheduler.budget.suspended) == 1

    story("a filter", scenario, seconds=BUDGET * SUSPEND_AT + 1)


def test_nothing_is_suspended_without_a_budget():
    async def scenario(world, _slowed):
        await exceeded(world, "a filter", 20)
        assert world.scheduler.budget.suspended == {}

    story("a filter", scenario, budget=0)


def test_other_policies_are_not_suspended():
    async def scenario(world, _slowed):
        await exceeded(world, "a filter")
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}

    story("a filter", scenario)


def test_a_suspended_policy_is_tried_again_after_doubling_pauses_and_its_pods_are_placed_once_it_is_fast():
    async def scenario(world, slowed):
        await exceeded(world, "a filter")
        world.cluster.put(slow_pod("late"))
        world.cluster.put(slow_pod("later", priority=-1))
        for seconds in (25, 10, 50):  # after 30 one decision, slow as ever, and it is suspended again
            world.cluster.put(pod(f"elsewhere-{seconds}", cpu="10m", nodeName="a"))  # so that the rule is asked again
            await world.pass_time(seconds)
            assert not {"late", "later"} & await bound(world)
        slowed.seconds = 0.0
        await world.pass_time(15)
        assert {"late", "later"} <= await bound(world)
        assert world.scheduler.budget.suspended == {}

    story("a filter", scenario)


def test_a_suspended_policy_is_tried_again_when_the_cluster_has_another_size():
    async def scenario(world, slowed):
        await exceeded(world, "a filter")
        world.cluster.put(slow_pod("late"))
        await world.pass_time(2)
        assert "late" not in await bound(world)
        slowed.seconds = 0.0
        for number in range(11):
            world.cluster.put(node(f"more-{number}"))
        await world.pass_time(2)
        assert "late" in await bound(world)

    story("a filter", scenario)


def test_a_suspended_policy_is_tried_again_when_its_text_changes():
    async def scenario(world, slowed):
        await exceeded(world, "a filter")
        world.suspensions.clear()
        world.cluster.put(slow_pod("late"))
        await world.calm()
        other = policy(f'policy "slow"\n{SCOPE}\nfilter f {{ require node.pod_count < 99 else "full" }}')
        world.scheduler.adopt({"wharfinger": with_policies(slowed.chain, [other])})
        assert "late" in await bound(world)
        assert [policy for policy, _ in world.suspensions] == ["slow"]

    story("a filter", scenario)


def test_pods_that_its_permit_holds_go_on_being_held_until_the_permit_agrees():
    async def scenario(world, slowed):
        await exceeded(world, "a filter beside a permit")
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}
        alone = [policy for policy in slowed.chain.policies if policy.name == "slow"]
        world.scheduler.adopt({"wharfinger": with_policies(slowed.chain, alone)})
        await world.calm()
        assert not {name for name in await bound(world) if name.startswith("first-")}
        for name in "abcdef":
            world.cluster.put(node(name, labels={"open": "yes"}))
        assert {name for name in await bound(world) if name.startswith("first-")} == {f"first-{number}" for number in range(SUSPEND_AFTER)}
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}

    story("a filter beside a permit", scenario)


def test_pods_that_wait_for_it_are_no_pods_that_were_forgotten():
    async def scenario(world, _slowed):
        await exceeded(world, "a filter")
        world.scheduler.budget.review = lambda: False
        world.cluster.put(slow_pod("late"))
        await world.pass_time(400, step=5)
        assert world.seen.flushes == 0
        assert len(notes(world, "late")) == 1

    story("a filter", scenario)


def gang_of(world, name, count, *levels, **more):
    """Create a group all at once."""
    for thing in (gang(name, count, *levels), *(member(name, number, "10m", **more) for number in range(count))):
        world.cluster.put(thing)


SLOW_TEAM = {"labels": {"team": "slow"}}


@pytest.mark.parametrize("levels", [(), (RACK,)])
@pytest.mark.parametrize("count", [8, 70])
@pytest.mark.parametrize("rule", ["a filter", "a score", "a tie break"])
def test_a_policy_that_is_slow_with_members_of_groups_is_suspended_and_other_groups_are_placed(rule, count, levels):
    async def scenario(world, slowed):
        gang_of(world, "first", count, *levels, **SLOW_TEAM)
        gang_of(world, "other", 3)
        there = await bound(world)
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}
        assert {f"other-{number}" for number in range(3)} == {name for name in there if "low-" not in name}
        assert slowed.asked < count
        [note] = notes(world, "first-0")
        assert re.match(r'group default/first: policy "slow" is suspended: it took 50 ms of a decision and may take 20 ms; pods', note)
        waiting = [entry for entry in world.scheduler.queue.groups if SUSPENDED in entry.rejectors]
        assert [entry.key for entry in waiting] == ["default/first"]

    story(rule, scenario)


def test_a_policy_that_takes_long_and_then_raises_is_suspended():
    async def scenario(world, slowed):
        slowed.raises = True
        await exceeded(world, "a filter")
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}

    story("a filter", scenario)


@pytest.mark.parametrize("rule", TEXTS)
def test_a_pod_is_not_placed_by_the_decision_that_suspends_its_policy(rule):
    async def scenario(world, _slowed):
        await exceeded(world, rule)
        last = f"first-{SUSPEND_AFTER}"
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}
        assert last not in await bound(world)
        assert not world.scheduler.state.is_placed(last)
        assert not any(other.terminating for other in world.scheduler.known_pods)  # and none is evicted for it
        assert re.match('policy "slow" is suspended', notes(world, last)[0])

    story(rule, scenario)


def test_a_group_is_not_placed_by_the_step_in_which_its_policy_is_suspended():
    async def scenario(world, _slowed):
        for number in range(SUSPEND_AFTER):  # the first is only found to be slow
            world.cluster.put(slow_pod(f"alone-{number}"))
            await world.calm()
        gang_of(world, "last", 1, **SLOW_TEAM)
        there = await bound(world)
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}
        assert "last-0" not in there
        assert not world.scheduler.state.is_placed("last-0")

    story("a filter", scenario)


def test_rules_about_victims_are_measured_when_a_group_preempts():
    async def scenario(world, _slowed):
        for number in range(5):
            world.cluster.put(gang(f"g{number}", 9))
            for each in range(9):
                world.cluster.put(member(f"g{number}", each, "3", **SLOW_TEAM))
            await world.calm()
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}

    story("preemption", scenario)


def test_groups_are_tried_again_when_the_suspension_ends():
    async def scenario(world, slowed):
        gang_of(world, "first", 8, **SLOW_TEAM)
        await world.pass_time(25)
        assert "first-0" not in await bound(world)
        slowed.seconds = 0.0
        await world.pass_time(10)
        assert {f"first-{number}" for number in range(8)} <= await bound(world)
        assert world.scheduler.budget.suspended == {}

    story("a filter", scenario)


def test_a_group_without_a_feasible_node_is_held_too():
    async def scenario(world, _slowed):
        for number in range(5):
            world.cluster.put(gang(f"g{number}", 9))
            for each in range(9):
                world.cluster.put(member(f"g{number}", each, "3", **SLOW_TEAM))
            await world.calm()
        assert {key[0] for key in world.scheduler.budget.suspended} == {"slow"}
        assert 'policy "slow" is suspended' in notes(world, "g4-0")[-1]

    story("a filter", scenario)


@pytest.mark.parametrize("count", [60, 100])
def test_a_large_group_with_quick_decisions_is_not_held(count):
    async def scenario(world, slowed):
        gang_of(world, "first", count, **SLOW_TEAM)
        assert len([name for name in await bound(world) if name.startswith("first-")]) == count
        assert slowed.asked >= count
        assert world.scheduler.budget.suspended == {}

    story("a filter", scenario, seconds=0.001)


class Members:
    """Decisions about members of a group, for a budget whose policy `slow` is watched already."""

    def __init__(self):
        self.clock = ManualClock()
        self.governing = (policy(f'policy "slow"\n{TEXTS["a filter"]}'),)
        time = self.clock.monotonic
        self.budget = PolicyBudget(BudgetSettings(seconds=BUDGET, timer=time), self.clock.now, time, lambda: (1, 1))
        self.stopwatch = self.budget.stopwatch(None)
        with self.step():
            self.clock.move(SLOW)

    def step(self):
        return self.budget.group_step(lambda: self.governing)

    def begin(self, seconds):
        """The timer of a decision whose filters have taken that long."""
        call_timer = self.stopwatch.begin(whole=True, policies=["slow"])
        call_timer.of_policy("slow", self.clock.move)(seconds)
        call_timer.mark("Filter")
        return call_timer


def test_a_decision_that_goes_on_in_a_later_step_exceeds_the_budget_once():
    members = Members()
    for _ in range(SUSPEND_AFTER):
        assert not members.budget.suspended
        with members.step():
            call_timer = members.begin(SLOW)
        with members.step():
            call_timer.mark("Score")
        with members.step():
            members.stopwatch.ended(call_timer, "Success")
    assert members.budget.suspended


def test_quick_filters_do_not_make_up_for_scores_that_take_long_in_a_later_step():
    members = Members()
    for _ in range(SUSPEND_AFTER):
        assert not members.budget.suspended
        with members.step():
            call_timer = members.begin(BUDGET / 2)
        with members.step():
            call_timer.of_policy("slow", members.clock.move)(SLOW)
            call_timer.mark("Score")
            members.stopwatch.ended(call_timer, "Success")
    assert members.budget.suspended


def test_times_of_a_decision_that_raised_count_for_that_decision_only():
    members = Members()
    for _ in range(SUSPEND_AFTER):
        members.budget.deciding()
        members.begin(SLOW)  # and then it raises, and nobody takes it in
        members.budget.deciding()
        members.budget.decided(members.governing, 0.0)
    assert not members.budget.suspended
    for _ in range(SUSPEND_AFTER):
        members.budget.deciding()
        members.begin(SLOW)
        members.budget.decided(members.governing, SLOW)
    assert members.budget.suspended


def postponed(members, before, after):
    """A decision about a pod that is put off, and concluded after these seconds with the evaluation that it has."""
    members.budget.deciding()
    call_timer = members.begin(before)
    members.budget.decided(members.governing, before, goes_on=True)
    members.budget.deciding()
    call_timer.of_policy("slow", members.clock.move)(after)
    members.stopwatch.ended(call_timer, "Unschedulable")
    members.budget.decided(members.governing, after)


@pytest.mark.parametrize(("before", "after"), [(SLOW, 0.0), (BUDGET / 2, SLOW), (SLOW, SLOW)])
def test_a_decision_that_is_put_off_exceeds_the_budget_once(before, after):
    members = Members()
    for _ in range(SUSPEND_AFTER):
        assert not members.budget.suspended
        postponed(members, before, after)
    assert members.budget.suspended


def test_a_decision_that_is_put_off_keeps_to_the_budget_once():
    members = Members()
    for _ in range(STEADY_AFTER):
        assert members.budget.watches(["slow"])
        postponed(members, 0.0, 0.0)
    assert not members.budget.watches(["slow"])


def test_one_step_suspends_a_policy_once_however_many_members_are_decided_about_in_it():
    members = Members()
    with members.step():
        for _ in range(5 * SUSPEND_AFTER):
            members.begin(SLOW)
    [suspension] = members.budget.suspended.values()
    assert suspension.pause == 30


def test_each_member_decided_about_in_one_step_is_compared_with_the_budget_by_itself():
    members = Members()
    with members.step():
        for _ in range(5 * SUSPEND_AFTER):
            members.begin(BUDGET / 2)
    assert not members.budget.suspended


def test_a_policy_that_keeps_to_its_budget_for_a_while_is_not_watched_any_more():
    allowance = Allowance(BudgetSettings(seconds=BUDGET))
    assert not allowance.took(SLOW, 0.0)
    for _ in range(STEADY_AFTER):
        assert not allowance.is_steady
        assert not allowance.took(BUDGET, 0.0)
    assert allowance.is_steady


def test_pauses_double_up_to_half_an_hour():
    allowance = Allowance(BudgetSettings(seconds=BUDGET))
    pauses = []
    for _ in range(9):
        while not allowance.took(SLOW, 100.0):
            pass
        pauses.append(allowance.suspended_until - 100.0)
        allowance.try_again()
    assert pauses == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800]


YOUNG = 'filter f{0} {{ require count(pods where (age(it.created) ?? 1d) < {0}min, on: node) < 9 else "many" }}'


def scanning(name, scope="", selections=1):
    """A policy that looks at all placed pods in each decision, because it compares their age."""
    return policy("\n".join([f'policy "{name}"', scope, *(YOUNG.format(1 + number) for number in range(selections))]))


def scans(policies, scenario):
    """Run policies on six nodes with a pod each, where 100 operations on placed pods are too many."""

    async def run():
        things = [each for name in "abcdef" for each in (node(name, labels={RACK: "one"}), pod(f"low-{name}", nodeName=name))]
        async with running(*things, chains={"wharfinger": assemble(policies)}) as world:
            await scenario(world)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed_pod_scans, "MAX_SCANNED", 100)
        asyncio.run(run())


def test_policies_that_would_look_at_too_many_placed_pods_are_suspended_before_they_do(monkeypatch):
    async def scenario(world):
        world.cluster.put(slow_pod("slow"))
        world.cluster.put(pod("other", cpu="10m"))
        await world.calm()
        assert await bound(world) == {"other", *(f"low-{name}" for name in "abcdef")}
        [note] = notes(world, "slow")
        assert note.startswith('policy "wide" is suspended: it would look at every placed pod in each decision with ')
        assert (
            "the policies of a pod may take 100 together (selections that read the time have no index); pods that it governs wait" in note
        )

    read = Snapshot.selection

    def selection(snapshot, *arguments, **named):
        assert not named.get("passing"), "it is looked at"
        return read(snapshot, *arguments, **named)

    monkeypatch.setattr(Snapshot, "selection", selection)
    scans([scanning("wide", SCOPE, selections=4)], scenario)


def test_of_several_policies_those_that_look_at_most_are_suspended_and_a_smaller_cluster_has_them_decide():
    async def scenario(world):
        world.cluster.put(pod("late", cpu="10m"))
        await world.calm()
        assert [name for name, _ in world.scheduler.budget.suspended] == ["twice"]
        assert "late" not in await bound(world)
        for name in "abcd":
            world.cluster.remove("Pod", f"default/low-{name}")
        await world.calm()
        world.clock.move(31.0)
        await world.calm()
        assert "late" in await bound(world)

    scans([scanning("once"), scanning("twice", selections=2)], scenario)


def test_a_group_waits_for_such_a_policy_too():
    async def scenario(world):
        for each in (gang("band", 2), *(member("band", number, labels={"team": "slow"}) for number in range(2))):
            world.cluster.put(each)
        await world.calm()
        assert [name for name, _ in world.scheduler.budget.suspended] == ["wide"]
        assert not {"band-0", "band-1"} & await bound(world)

    scans([scanning("wide", SCOPE, selections=4)], scenario)


def test_an_index_is_no_look_at_every_placed_pod():
    texts = ["it.name != pod.name", "it.priority > 3 and it.uid != pod.uid", 'it.labels["a"] == pod.name', "starts_with(it.name, pod.name)"]
    for text in texts:
        assert not policy(f'policy "p"\nfilter f {{ require count(pods where {text}, on: node) < 9 else "many" }}').scanned
    assert scanning("p").scanned > 0

"""Shadow policies see decisions and change none."""

import asyncio

from tests.unit.compiler.texts import compiled
from tests.unit.policies.slow_rules import slow_rule
from tests.unit.policies.stores import BASE, policy, story
from tests.unit.scheduler.running import node, pod, running
from wharfinger.compiler import bound
from wharfinger.framework.chain import with_policies
from wharfinger.framework.evaluation import cycle, kept_result
from wharfinger.policies import scans, shadow
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.budget import SUSPEND_AFTER, BudgetSettings
from wharfinger.policies.shadow import MAX_KEPT, MAX_TIME_SHARE, Shadows
from wharfinger.scheduler.events import Decided

A, B = compiled(policy("where", "a")), compiled(policy("where", "b"))


def active(deciding, **shadows):
    chain = with_policies(BASE, deciding)
    shadow_chains = {
        name: with_policies(chain, [*(found for found in deciding if found.name != name), shadow]) for name, shadow in shadows.items()
    }
    return ActivePolicies(chains={"wharfinger": chain}, shadows={"wharfinger": shadow_chains})


def started(policies, *things):
    return running(node("a", cpu="1000", labels={"pool": "a"}), node("b", labels={"pool": "b"}), *things, chains=dict(policies.chains))


def shadowed(world, policies, timer=None):
    shadows = Shadows(world.clock, timer)
    shadows.adopt(policies)
    world.subscribers.subscribe({Decided: lambda event: shadows.compare(event.profile, event.decision)})
    return shadows


async def decided(world, pods):
    """Have so many pods decided, one after the other."""
    for number in range(pods):
        world.cluster.put(pod(f"p{number}", cpu="1m"))
        await world.calm()


@story
async def test_a_shadow_that_would_decide_otherwise_is_counted_and_listed_and_nothing_else():
    policies = active([A], where=B)
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        world.cluster.put(pod("p"))
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/p": "a"}
        report = shadows.reports["where"]
        assert (report.agreed, report.disagreed, report.errors) == (0, 1, 0)
        assert [(found.pod, found.node, found.shadow_node) for found in report.last] == [("default/p", "a", "b")]


@story
async def test_a_shadow_that_rejects_every_node_is_reported_and_the_pod_is_placed():
    policies = active([], nowhere=compiled(policy("nowhere", "c")))
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        world.cluster.put(pod("p"))
        await world.calm()
        assert len(world.cluster.nodes_of_pods()) == 1
        reported = shadows.reports["nowhere"].last[0]
        assert reported.shadow_node is None
        assert "not c" in reported.shadow_message


@story
async def test_pods_that_it_does_not_govern_are_not_compared():
    policies = active([], web=compiled(policy("web", "c", more='for pods where pod.labels["app"] == "web"\n')))
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        world.cluster.put(pod("p"))
        await world.calm()
        assert shadows.reports["web"].agreed + shadows.reports["web"].disagreed == 0


@story
async def test_a_shadow_that_fails_fails_alone(monkeypatch):
    policies = active([A], where=B)
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        monkeypatch.setattr(type(B), "governs", lambda self, pod, now: 1 / 0 if self is B else True)
        world.cluster.put(pod("p"))
        await world.calm()
        assert world.cluster.nodes_of_pods() == {"default/p": "a"}
        assert shadows.reports["where"].errors == 1
        assert "ZeroDivisionError" in shadows.reports["where"].last_error


@story
async def test_comparisons_are_limited_to_a_share_of_the_time():
    policies = active([A], where=B)
    now = [0.0]

    def timer():
        now[0] += 0.05  # each look at the clock is a twentieth of a second, so each comparison costs that
        return now[0]

    async with started(policies) as world:
        shadows = shadowed(world, policies, timer)
        for index in range(200):
            world.cluster.put(pod(f"p{index}", cpu="1m"))
        await world.pass_time(5)
        report = shadows.reports["where"]
        seen = report.agreed + report.disagreed
        assert seen + report.unseen == 200
        assert report.unseen > 0
        assert seen * 0.05 <= MAX_TIME_SHARE * now[0] + 0.3


@story
async def test_only_the_last_disagreements_are_kept():
    policies = active([A], where=B)
    async with started(policies) as world:
        shadows = shadowed(world, policies, lambda: 0.0)
        for index in range(MAX_KEPT + 7):
            world.cluster.put(pod(f"p{index}", cpu="1m"))
        await world.pass_time(2)
        report = shadows.reports["where"]
        assert (report.disagreed, len(report.last)) == (MAX_KEPT + 7, MAX_KEPT)


@story
async def test_counts_go_on_for_one_revision_and_begin_anew_for_another():
    policies = active([A], where=B)
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        world.cluster.put(pod("p"))
        await world.calm()
        shadows.adopt(active([A, compiled(policy("other"))], where=B))
        assert shadows.reports["where"].disagreed == 1
        world.cluster.put(pod("q"))
        await world.calm()
        assert shadows.reports["where"].disagreed == 2
        shadows.adopt(active([A], where=compiled(policy("where", "c"))))
        assert shadows.reports["where"].disagreed == 0
        await asyncio.sleep(0)
        shadows.adopt(active([A]))
        assert shadows.reports == {}


@story
async def test_a_shadow_that_takes_too_long_pauses_and_is_tried_again():
    slow = compiled('policy "where"\nfilter f { require node.pod_count < 500 else "full" }')
    policies = active([A], where=slow)
    async with started(policies) as world:
        shadows = Shadows(world.clock, lambda: 0.0, BudgetSettings(seconds=0.02, timer=world.clock.monotonic))
        shadows.adopt(policies)
        chain = policies.shadows["wharfinger"]["where"]
        rules = next(found for found in chain.rules if found.policy is slow)
        taken = [0.05]
        slow_rule(rules.filters[0], "prepare_filter", ("bits", "bits_at"), lambda: world.clock.move(taken[0]))
        world.subscribers.subscribe({Decided: lambda event: shadows.compare(event.profile, event.decision)})
        for number in range(SUSPEND_AFTER + 5):
            world.cluster.put(pod(f"p-{number}", cpu="1m"))
            await world.calm()
        report = shadows.reports["where"]
        assert (report.agreed + report.disagreed, report.unseen) == (SUSPEND_AFTER, 5)
        assert report.last_error == "it took 50 ms of a decision and may take 20 ms; decisions are not compared for 30 s"
        assert len(world.cluster.nodes_of_pods()) == SUSPEND_AFTER + 5
        taken[0] = 0.0
        world.clock.move(30)
        world.cluster.put(pod("late", cpu="1m"))
        await world.calm()
        assert (report.agreed + report.disagreed, report.unseen) == (SUSPEND_AFTER + 1, 5)


@story
async def test_what_takes_steps_is_done_while_decisions_pass_by_unseen(monkeypatch):
    for module in (cycle, kept_result):
        monkeypatch.setattr(module, "OPERATIONS_AT_ONCE", 20)
    monkeypatch.setattr(bound, "OPERATIONS_PER_STEP", 40)
    monkeypatch.setattr(shadow, "STEP_SECONDS", -1.0)
    terms = " + ".join(f"sqrt(node.pod_count + {number})" for number in range(40))
    policies = active([A], long=compiled(f'policy "long"\nfilter roomy {{ require {terms} < 0 else "no" }}'))
    async with started(policies) as world:
        shadows, seen = shadowed(world, policies), []
        for number in range(60):
            world.cluster.put(pod(f"p{number}", cpu="1m"))
            await world.calm()
            seen.append(shadows.reports["long"].disagreed)
        assert seen[5] == 0
        assert seen[-1] > 0
        report = shadows.reports["long"]
        assert report.unseen + report.disagreed == 60
        assert (report.agreed, report.errors) == (0, 0)
        assert (report.last[-1].shadow_node, report.last[-1].shadow_message) == (None, "0/2 nodes are available: 2 no.")


@story
async def test_a_shadow_that_would_look_at_too_many_placed_pods_sees_no_decision(monkeypatch):
    monkeypatch.setattr(scans, "MAX_SCANNED", 10)
    young = 'filter f { require count(pods where (age(it.created) ?? 1d) < 5min, on: node) < 9 else "many" }'
    policies = active([A], young=compiled(f'policy "young"\n{young}'))
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        await decided(world, 3)
        report = shadows.reports["young"]
        assert (report.agreed, report.unseen) == (1, 2)
        assert report.last_error == "it would look at too many placed pods in each decision; decisions are not compared"


@story
async def test_a_shadow_that_would_take_too_long_for_one_step_with_the_other_policies_sees_hardly_any_decision(monkeypatch):
    monkeypatch.setattr(cycle, "OPERATIONS_AT_ONCE", 20)
    for module in ("rules.work", "evaluation.kept_result"):
        monkeypatch.setattr(f"wharfinger.framework.{module}.MAX_AT_ONCE", 40)
    monkeypatch.setattr(shadow, "STEP_SECONDS", -1.0)
    policies = active([A], tied=compiled('policy "tied"\ntie_break node.pod_count + node.free.cpu / 1cpu asc'))
    async with started(policies) as world:
        shadows = shadowed(world, policies)
        await decided(world, 20)
        report = shadows.reports["tied"]
        compared = report.agreed + report.disagreed  # those for which the steps happened to end with the decision
        assert (compared < 5, report.errors, report.unseen) == (True, 0, 20 - compared)
        assert report.last_error == "the policies of a pod take too long together for one step; decisions are not compared"

"""Refreshers: samples that arrive, become too old, and are missing."""

import asyncio
from itertools import pairwise

import pytest

from tests.in_memory import ManualClock
from tests.observed import subscribed
from wharfinger.builtins import CATALOGUE
from wharfinger.language.check import check
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.authority import TenantPolicies, TenantRights
from wharfinger.model.objects import Node
from wharfinger.model.objects.metadata import ObjectMeta, time_text
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.signals.mapping import NodeNames, Series, mapped
from wharfinger.signals.query import SignalLimits, queries_of
from wharfinger.signals.refreshing import (
    KEPT_SECONDS,
    Kind,
    MetricResumed,
    MetricSuspended,
    RefreshFailed,
    SignalFailed,
    SignalRefreshed,
    Signals,
    SignalsFollowed,
)

TEMPLATE = "metric load: percent = prometheus('up', node: \"instance\", refresh: {refresh}, max_age: 60s, min_coverage: 50%)"

LOAD = TEMPLATE.format(refresh="10s")


def policy(name="p", metrics=LOAD, used="load", namespace=None):
    text = f'policy "{name}"\n{metrics}\nfilter cool {{ require {used} < 90% else "hot" on missing pass }}\n'
    diagnostics = Diagnostics()
    file = parse(Source(name="p.policy", text=text), diagnostics)
    found = check(file, CATALOGUE, diagnostics, authority=TenantRights(TenantPolicies.TRUSTED).of(namespace))
    assert found is not None, [str(each) for each in diagnostics.found]
    return found


class Scene:
    """Two nodes, a stopped clock, a source that answers as scripted, and a subscriber that records."""

    def __init__(self, limits=None):
        self.clock = ManualClock()
        self.state = ClusterState()
        for name in "ab":
            self.state.add_node(Node(metadata=ObjectMeta(name=name)))
        self.values = {"a": 0.25, "b": 0.5}
        self.failure = None
        self.asked = []
        self.reported = []
        self.wakeups = 0
        self.signals = Signals({"prometheus": self, "metrics_api": self}, self, self.clock, self.subscriptions().emit, limits=limits)

    # the source
    async def measured(self, query, nodes):
        self.asked.append(query.text)
        if self.failure is not None:
            raise self.failure
        rows = [Series({"instance": node}, value, self.clock.now()) for node, value in self.values.items()]
        return mapped(rows, query, nodes)

    # the sink
    def nodes(self):
        return NodeNames(*self.state.nodes_listed())

    def publish(self, key, found):
        self.state.put_metric(key, found.column, found.samples, found.layout)

    def drop(self, key):
        self.state.drop_metric(key)

    def retry_rejected(self):
        self.wakeups += 1

    def snapshot(self):
        return self.state.snapshot(self.clock.now())

    # the subscriber
    def subscriptions(self):
        return subscribed(
            {
                SignalsFollowed: lambda event: setattr(self, "known", set(event.queries)),
                SignalRefreshed: lambda _: self.reported.append("refreshed"),
                RefreshFailed: lambda event: self.reported.append(event.error.kind.value),
                MetricSuspended: lambda event: self.reported.append(f"suspended: {event.suspension}"),
                MetricResumed: lambda event: self.reported.append(f"resumed: {event.suspension}"),
            }
        )

    # what happens
    async def pass_(self, seconds):
        for _ in range(int(seconds)):
            self.clock.move(1.0)
            await self.run_pending()

    async def run_pending(self):
        for _ in range(12):
            await asyncio.sleep(0)

    def values_of(self, metric):
        column = self.snapshot().metric(*metric.key.names)
        return None if column is None else column.values.tolist()


def living(story, limits=None):
    """The story of a scene whose signals run."""

    async def live():
        scene = Scene(limits)
        task = asyncio.create_task(scene.signals.run())
        await scene.run_pending()
        try:
            await story(scene)
        finally:
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(live())


def test_a_signal_is_asked_at_once_and_at_its_interval():
    async def story(scene):
        (metric,) = policy().metrics
        scene.signals.follow([policy()])
        await scene.run_pending()
        assert scene.asked == ["up"]
        assert scene.values_of(metric) == [0.25, 0.5]
        await scene.pass_(12)
        assert len(scene.asked) == 2
        await scene.pass_(100)
        assert 10 <= len(scene.asked) <= 13

    living(story)


def test_policies_share_a_signal_and_the_shorter_interval_holds():
    one, other = policy("one"), policy("other", TEMPLATE.format(refresh="5s").replace("load", "usage"), "usage")
    (query,) = queries_of([one, other]).values()
    assert query.refresh == 5.0
    assert query.users == ("one.load", "other.usage")


@pytest.mark.parametrize(
    "other",
    [
        LOAD.replace("'up'", "'down'"),
        LOAD.replace('"instance"', '"node"'),
        LOAD.replace('node: "instance"', 'node: "instance", relabel: "(.*)"'),
        LOAD.replace('node: "instance"', 'node: "instance", server: "b"'),
        LOAD.replace('node: "instance"', 'node: "instance", times: "t"'),
        LOAD.replace("load: percent", "load: cpu"),
    ],
)
def test_one_name_may_be_two_signals(other):
    used = "ratio(load, 1cpu)" if "cpu" in other else "load"
    assert len(queries_of([policy("one"), policy("other", other, used)])) == 2


def test_an_unused_signal_is_dropped_and_soon_there_again():
    async def story(scene):
        (metric,) = policy().metrics
        scene.signals.follow([policy()])
        await scene.run_pending()
        scene.signals.follow([])
        await scene.pass_(30)
        assert len(scene.asked) == 1
        assert scene.known == set()
        assert scene.values_of(metric) is None
        scene.failure = SignalFailed(Kind.TIMEOUT, "late")
        scene.signals.follow([policy()])
        assert scene.values_of(metric) == [0.25, 0.5]
        scene.signals.follow([])
        await scene.pass_(KEPT_SECONDS + 1)
        scene.signals.follow([policy()])
        assert scene.values_of(metric) is None

    living(story)


def test_samples_outlast_failures_until_they_are_too_old():
    async def story(scene):
        (metric,) = policy().metrics
        scene.signals.follow([policy()])
        await scene.run_pending()
        scene.failure = SignalFailed(Kind.UNREACHABLE, "gone")
        await scene.pass_(59)
        assert scene.values_of(metric) == [0.25, 0.5]
        assert not [each for each in scene.reported if each.startswith("suspended")]
        await scene.pass_(3)
        assert scene.reported.count("suspended: metric `load` of policy p is fresh on 0 of 2 nodes (fewer than 50 %)") == 1
        assert scene.wakeups == 1
        scene.failure = None
        await scene.pass_(12)
        assert "resumed: metric `load` of policy p is fresh on 2 of 2 nodes (at least 50 %)" in scene.reported
        assert scene.wakeups == 2

    living(story)


def test_a_metric_that_waits_for_its_first_answer_is_not_called_suspended():
    async def story(scene):
        gate = asyncio.Event()

        async def slow(query, nodes):
            await gate.wait()
            raise SignalFailed(Kind.TIMEOUT, "late")

        scene.measured = slow
        scene.signals.follow([policy()])
        await scene.pass_(5)
        assert scene.reported == []
        gate.set()
        await scene.pass_(2)
        assert [each.partition(":")[0] for each in scene.reported] == ["timeout", "suspended"]

    living(story)


def test_part_of_the_nodes_may_be_too_few():
    async def story(scene):
        scene.values = {"a": 0.25}
        scene.signals.follow([policy(metrics=TEMPLATE.format(refresh="10s").replace("50%", "51%"))])
        await scene.pass_(2)
        assert scene.reported[-1] == "suspended: metric `load` of policy p is fresh on 1 of 2 nodes (fewer than 51 %)"

    living(story)


def test_after_any_error_of_a_source_the_next_refresh_follows():
    async def story(scene):
        scene.failure = KeyError("odd")
        scene.signals.follow([policy()])
        await scene.run_pending()
        assert scene.reported == ["answer"]
        scene.failure = None
        await scene.pass_(12)
        assert "refreshed" in scene.reported

    living(story)


def test_rows_that_moved_meanwhile_do_not_mix_up_samples():
    async def story(scene):
        (metric,) = policy().metrics
        former = scene.nodes()
        scene.state.remove_node("a")
        scene.state.add_node(Node(metadata=ObjectMeta(name="c")))
        found = mapped(
            [Series({"instance": "b"}, 0.5, 1.0), Series({"instance": "c"}, 0.75, 1.0)], queries_of([policy()])[metric.signal], former
        )
        scene.publish(metric.signal, found)
        assert list(scene.snapshot().names) == ["b", "c"]
        assert str(scene.values_of(metric)) == "[0.5, nan]"

    living(story)


def test_nothing_is_asked_more_often_than_the_settings_allow():
    eager = policy(metrics=TEMPLATE.format(refresh="1s"))

    async def story(scene):
        scene.signals.follow([eager])
        await scene.run_pending()
        await scene.pass_(100)
        assert 18 <= len(scene.asked) <= 23
        (standing,) = scene.signals.states
        assert (standing.query.wanted, standing.query.refresh) == (1.0, 5.0)

    living(story)


def several(name, count, namespace=None):
    """A policy with that many metrics, whose queries are its own."""
    template = LOAD.replace("load:", "m{0}:").replace("'up'", "'" + name + "_{0}'")
    return policy(name, "\n".join(template.format(number) for number in range(count)), "m0", namespace)


def logged_question(policies, limits):
    return [query.text for query in queries_of(policies, limits).values() if not query.refused]


def test_the_queries_of_each_asker_are_limited_and_the_others_are_reported():
    limits = SignalLimits(of_requester=2, of_all=100)
    policies = [several("a", 3), several("b", 1), several("c", 2, "team"), several("d", 2, "team"), several("e", 1, "other")]

    assert logged_question(policies, limits) == ["a_0", "a_1", "b_0", "c_0", "c_1", "e_0"]
    refused = {query.text: query.refused for query in queries_of(policies, limits).values() if query.refused}
    assert refused.keys() == {"a_2", "d_0", "d_1"}
    assert refused["a_2"] == "not sent: policy a has 3 distinct queries, and 2 are allowed (signals.queriesOfAsker)"
    assert refused["d_0"] == "not sent: namespace team has 4 distinct queries, and 2 are allowed (signals.queriesOfAsker)"


def test_queries_of_the_cluster_come_first_and_then_one_of_each_namespace():
    limits = SignalLimits(of_requester=10, of_all=4)
    policies = [several("greedy", 5, "team"), several("other", 2, "other"), several("platform", 2)]

    assert set(logged_question(policies, limits)) == {"platform_0", "platform_1", "greedy_0", "other_0"}


def test_a_query_that_is_not_sent_is_reported_as_a_failure():
    async def story(scene):
        scene.signals.follow([several("a", 2)])
        await scene.run_pending()
        assert scene.asked == ["a_0"]
        assert sorted(scene.reported) == ["limit", "refreshed"]

    living(story, SignalLimits(of_requester=1))


def test_the_same_query_is_asked_once_and_in_the_turn_of_the_cluster():
    (query,) = queries_of([policy("t", namespace="team"), policy("p")], SignalLimits()).values()

    assert (query.requester.name, query.requester.rank) == ("p", 0)
    assert query.users == ("p.load", "t.load")


def test_the_state_of_a_metric_is_reported_as_of_now():
    async def story(scene):
        eager = policy(metrics=TEMPLATE.format(refresh="1s"))
        scene.signals.follow([eager])
        reported = lambda: str(*scene.signals.metrics)  # noqa: E731 — said each time again
        slower = "queried every 5 s, not every 1 s (signals.minRefresh)"
        assert reported() == f"metric `load` waits for its first answer; {slower}"
        await scene.pass_(1)
        assert reported() == f"metric `load` is fresh on 2 of 2 nodes, samples are 0 s old; {slower}"
        began = scene.clock.now()
        scene.failure = SignalFailed(Kind.UNREACHABLE, "nobody answers")
        await scene.pass_(100)
        (found,) = scene.signals.metrics
        assert began + 59 <= found.suspended_since <= began + 65
        assert (
            f"fewer than 50 %, so rules that use it are suspended since {time_text(found.suspended_since)}; the last refresh failed: "
            in reported()
        )
        assert "metric `load` is fresh on 0 of 2 nodes, samples are " in reported()
        scene.failure = None
        await scene.pass_(7)
        assert reported().startswith("metric `load` is fresh on 2 of 2 nodes, samples are ")
        assert "are suspended" not in reported()
        assert "failed" not in reported()

    living(story)


def test_many_metrics_are_checked_and_reported_in_steps():
    scene = Scene()

    async def story():
        scene.signals.follow([policy(f"p{number}") for number in range(30)])
        running = asyncio.create_task(scene.signals.run())
        await scene.pass_(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        scene.clock.move(61.0)
        seen = [len(scene.reported) for _ in scene.signals.check_in_steps()]
        assert max(later - earlier for earlier, later in pairwise(seen)) == 1
        assert len(seen) == 60, "a step for the check of each, and one for each report"
        assert sum("suspended" in said for said in scene.reported) == 30

    asyncio.run(story())

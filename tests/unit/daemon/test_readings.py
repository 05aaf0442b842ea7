"""Gauges are read from a running scheduler at scrape time."""

import asyncio
from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from tests.unit.compiler.texts import compiled
from tests.unit.scheduler.running import node, pod, running
from tests.unit.scheduler.test_groups_live import gang, members, racks
from wharfinger.daemon.observation import read_from
from wharfinger.framework.chain import assemble
from wharfinger.telemetry.metrics import Metrics

POLICY = 'policy "zones"\nfilter zoned { require node.labels["zone"] != "east" else "is east" on missing pass }\n'


def test_gauges_say_what_is():
    async def story():
        policy = compiled(POLICY)
        chains = {"wharfinger": assemble([policy])}
        gated = pod("shy", schedulingGates=[{"name": "wait"}])
        async with running(node("a", cpu="2"), pod("one"), pod("big", cpu="9"), gated, chains=chains) as world:
            metrics = Metrics(CollectorRegistry(), of_process=False)
            others = {"policies": SimpleNamespace(statuses=(), sources=()), "shadows": SimpleNamespace(reports={}), "custom": None}
            others["server"] = SimpleNamespace(recorder=SimpleNamespace(oldest=1.5, dropped=3))
            read_from(SimpleNamespace(scheduler=world.scheduler, leads=True, **others), metrics, "lease")

            def value(metric, /, **labels):
                return metrics.registry.get_sample_value(metric, labels)

            world.cluster.lagging = True  # the pod is seen, its binding is not
            world.cluster.put(pod("two"))
            world.cluster.catch_up()
            await world.calm()
            found = {queue: value("scheduler_pending_pods", queue=queue) for queue in ("active", "backoff", "unschedulable", "gated")}
            assert found == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1}
            assert value("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile="wharfinger") == 1
            assert value("scheduler_cache_size", type="nodes") == 1
            assert value("scheduler_cache_size", type="pods") == 1
            assert value("scheduler_cache_size", type="assumed_pods") == 1
            assert value("scheduler_goroutines", operation="binding") == 0
            assert value("wharfinger_event_age_seconds") == 1.5
            assert value("wharfinger_events_left_out_total") == 3
            assert value("leader_election_master_status", name="lease") == 1
            assert value("wharfinger_policy_active_info", policy="zones", revision=policy.revision[:12]) == 1
            assert value("wharfinger_state_revision") == world.scheduler.state.revision

    asyncio.run(story())


def test_groups_that_wait_are_counted_by_their_queue():
    async def story():
        waiting = gang("big", 9), *members("big", 9), *members("none", 1)
        async with running(*racks(1, 1), gang("small", 2), *members("small", 2), *waiting) as world:
            metrics = Metrics(CollectorRegistry(), of_process=False)
            others = {"policies": SimpleNamespace(statuses=(), sources=()), "shadows": SimpleNamespace(reports={}), "custom": None}
            others["server"] = SimpleNamespace(recorder=SimpleNamespace(oldest=0.0, dropped=0))
            read_from(SimpleNamespace(scheduler=world.scheduler, leads=True, **others), metrics, "lease")
            queues = ("active", "backoff", "unschedulable", "gated", "in_flight")
            found = [metrics.registry.get_sample_value("wharfinger_waiting_groups", {"queue": queue}) for queue in queues]
            assert found == [0, 0, 1, 1, 0]

    asyncio.run(story())

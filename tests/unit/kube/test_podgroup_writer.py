"""A condition goes to the PodGroup of that uid, at the version of the API that the server has."""

from __future__ import annotations

import pytest

from tests.unit.kube.conftest import RealClock, failure_of
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.groups import results
from wharfinger.kube.writes import ApiPodGroupWriter
from wharfinger.model.objects import ObjectCondition, ObjectMeta, PodGroup, PodGroupStatus

SERVED = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
PATH = "/apis/scheduling.k8s.io/v1alpha2/namespaces/shop/podgroups/train/status"
GROUP = PodGroup(metadata=ObjectMeta(name="train", namespace="shop", uid="g1", generation=1))


@pytest.fixture
def write(run):
    """Writes a condition; gives (WriteFailed or None, bodies of what was sent)."""

    def start(group, condition, answer, may_write=True):
        outcome = []

        async def scenario(server, connection):
            server.on("PATCH", PATH, answer)
            writer = ApiPodGroupWriter(connection, RealClock(), lambda: SERVED, lambda: may_write)
            assert writer.api_version == "scheduling.k8s.io/v1alpha2"
            failure = await failure_of(writer.patch_condition(group, condition))
            outcome.extend((failure, [seen.body for seen in server.seen]))

        run(scenario)
        return outcome

    return start


def test_the_condition_is_that_of_the_very_group(write):
    failure, (body,) = write(GROUP, results.unschedulable("full"), Answer())
    assert failure is None
    assert body["metadata"] == {"uid": "g1"}
    (condition,) = body["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "full",
        "observedGeneration": 1,
    }


def test_the_time_of_transition_stays_while_the_status_does(write):
    known = ObjectCondition(type="PodGroupScheduled", status="False", reason="Unschedulable", message="full")
    group = PodGroup(metadata=GROUP.metadata, status=PodGroupStatus(conditions=(known,)))
    _, (body,) = write(group, results.unschedulable("fuller"), Answer())
    assert "lastTransitionTime" not in body["status"]["conditions"][0]


def test_a_group_that_is_gone_is_reported(write):
    failure, _ = write(GROUP, results.scheduled(), refused(404, "NotFound"))
    assert failure.gone


def test_nothing_is_written_without_the_lease(write):
    failure, bodies = write(GROUP, results.scheduled(), Answer(), may_write=False)
    assert "not the leader" in failure.reason
    assert bodies == []

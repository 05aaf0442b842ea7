"""The writes about pods, and the handling of refusals."""

from __future__ import annotations

import pytest

from tests.unit.kube.conftest import RealClock, failure_of
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import Condition
from wharfinger.kube.writes import ApiWriter
from wharfinger.model.objects import ObjectMeta, Pod, PodCondition, PodStatus
from wharfinger.model.objects.pod_view import PodView

PATH = "/api/v1/namespaces/shop/pods/web"
STATUS = f"{PATH}/status"
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes are available")
DISRUPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message="m")


def pod(*conditions, nominated="", generation=0):
    metadata = ObjectMeta(name="web", namespace="shop", uid="u1", generation=generation)
    return PodView(Pod(metadata=metadata, status=PodStatus(conditions=conditions, nominated_node_name=nominated)))


def reported_pod(**changes):
    fields = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
    return PodCondition(**fields | changes)


@pytest.fixture
def write(run):
    """Does something with a writer against a script; gives (WriteFailed or None, server, clock)."""

    def start(deed, script, may_write=lambda: True):
        outcome = []

        async def scenario(server, connection):
            for (method, path), steps in script.items():
                server.on(method, path, *steps)
            clock = RealClock()
            failure = await failure_of(deed(ApiWriter(connection, clock, may_write)))
            outcome.extend((failure, server, clock))

        run(scenario)
        return outcome

    return start


def patched(subject, **what):
    return lambda writer: writer.patch_status(subject, **what)


def test_a_condition_is_merged_by_its_type_and_names_the_pod(write):
    failure, server, _ = write(patched(pod(generation=7), condition=UNSCHEDULABLE), {("PATCH", STATUS): [Answer()]})
    assert failure is None
    (seen,) = server.seen
    assert seen.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert seen.body["metadata"] == {"uid": "u1"}
    (condition,) = seen.body["status"]["conditions"]
    assert condition["message"] == "0/1 nodes are available"
    assert condition["observedGeneration"] == 7
    assert condition["lastTransitionTime"].endswith("Z")
    assert "nominatedNodeName" not in seen.body["status"]


def test_the_time_of_transition_stays_while_the_status_stays(write):
    _, server, _ = write(patched(pod(reported_pod(message="other")), condition=UNSCHEDULABLE), {("PATCH", STATUS): [Answer()]})
    assert "lastTransitionTime" not in server.seen[0].body["status"]["conditions"][0]


@pytest.mark.parametrize(
    ("subject", "what"),
    [
        (pod(reported_pod()), {"condition": UNSCHEDULABLE}),
        (pod(nominated="n1"), {"nominated_node": "n1"}),
        (pod(), {"nominated_node": ""}),
        (pod(), {}),
    ],
)
def test_an_unchanged_status_is_not_written(write, subject, what):
    assert write(patched(subject, **what), {})[1].seen == []


@pytest.mark.parametrize(("nominated", "written"), [("n2", "n2"), ("", None)])
def test_a_nomination_is_set_and_taken_away(write, nominated, written):
    _, server, _ = write(patched(pod(nominated="n1"), nominated_node=nominated), {("PATCH", STATUS): [Answer()]})
    assert server.seen[0].body["status"] == {"nominatedNodeName": written}


def test_a_victim_is_marked_and_then_deleted_if_it_is_still_the_same(write):
    failure, server, _ = write(
        lambda writer: writer.disrupt(pod(), DISRUPTED), {("PATCH", STATUS): [Answer()], ("DELETE", PATH): [Answer()]}
    )
    assert failure is None
    assert [seen.method for seen in server.seen] == ["PATCH", "DELETE"]
    assert server.seen[1].body["preconditions"] == {"uid": "u1"}


def test_an_eviction_without_effect_sends_the_same_requests_as_a_dry_run(write):
    failure, server, _ = write(
        lambda writer: writer.try_disrupt(pod(), DISRUPTED), {("PATCH", STATUS): [Answer()], ("DELETE", PATH): [refused(403)]}
    )
    assert failure is not None
    assert [(seen.method, seen.query) for seen in server.seen] == [("PATCH", {"dryRun": "All"}), ("DELETE", {})]
    assert (server.seen[1].body["preconditions"], server.seen[1].body["dryRun"]) == ({"uid": "u1"}, ["All"])


ANOTHER_UID = refused(422, "Invalid", 'Pod "web" is invalid: metadata.uid: Invalid value: "u1": field is immutable')
REPLACED = refused(
    409,
    "Conflict",
    'Operation cannot be fulfilled on pods "web": the UID in the precondition (u1) does not match the UID in record (u2). '
    "The object might have been deleted and then recreated",
)
REPLACED_MEANWHILE = refused(
    409,
    "Conflict",
    'Operation cannot be fulfilled on pods "web": StorageError: invalid object, Code: 4, Key: /registry/pods/shop/web, '
    "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u1, UID in object meta: u2",
)
CHANGED = refused(
    409,
    "Conflict",
    'Operation cannot be fulfilled on pods "web": the object has been modified; please apply your changes to the latest version',
)


@pytest.mark.parametrize("refusal", [refused(404), REPLACED, REPLACED_MEANWHILE, ANOTHER_UID])
@pytest.mark.parametrize("at", ["PATCH", "DELETE"])
def test_a_victim_that_is_gone_is_fine(write, refusal, at):
    script = {("PATCH", STATUS): [Answer()], ("DELETE", PATH): [Answer()]}
    script[at, STATUS if at == "PATCH" else PATH] = [refusal]
    assert write(lambda writer: writer.disrupt(pod(), DISRUPTED), script)[0] is None


@pytest.mark.parametrize("at", ["PATCH", "DELETE"])
def test_a_victim_that_has_only_changed_is_not_taken_for_gone(write, at):
    script = {("PATCH", STATUS): [Answer()], ("DELETE", PATH): [Answer()]}
    script[at, STATUS if at == "PATCH" else PATH] = [CHANGED]
    failure, server, _ = write(lambda writer: writer.disrupt(pod(), DISRUPTED), script)
    assert (failure.retriable, failure.gone) == (True, False)
    assert server.seen[-1].method == at  # and a victim without the condition is not deleted


@pytest.mark.parametrize("refusal", [refused(429, Retry_After="2"), refused(500)])
def test_a_busy_or_broken_server_is_asked_again(write, refusal):
    failure, server, clock = write(patched(pod(), condition=UNSCHEDULABLE), {("PATCH", STATUS): [refusal, Answer()]})
    assert failure is None
    assert len(server.seen) == 2
    assert len(clock.waits) == 1


@pytest.mark.parametrize(
    ("refusal", "retriable", "gone"),
    [
        (refused(500), True, False),
        (refused(404), False, True),
        (REPLACED, False, True),
        (CHANGED, True, False),
        (refused(422), False, False),
        (refused(403), True, False),
    ],
)
def test_a_failed_write_says_whether_it_makes_sense_to_try_again(write, refusal, retriable, gone):
    failure, _, _ = write(patched(pod(), condition=UNSCHEDULABLE), {("PATCH", STATUS): [refusal]})
    assert (failure.retriable, failure.gone) == (retriable, gone)


def test_after_the_loss_of_the_lease_nothing_is_written(write):
    failure, server, _ = write(lambda writer: writer.disrupt(pod(), DISRUPTED), {}, may_write=lambda: False)
    assert failure is not None
    assert server.seen == []

"""Claims are annotated and volumes reserved only if they have not changed since they were chosen."""

from __future__ import annotations

import pytest

from tests.unit.kube.conftest import RealClock, failure_of
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.kube.writes import ApiVolumeWriter
from wharfinger.model.objects import ObjectMeta, PersistentVolume, PersistentVolumeClaim

CLAIM = PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace="shop", uid="c1", resource_version="8"))
VOLUME = PersistentVolume(metadata=ObjectMeta(name="pv-1", uid="v1", resource_version="7"))
CLAIM_PATH = "/api/v1/namespaces/shop/persistentvolumeclaims/data"
VOLUME_PATH = "/api/v1/persistentvolumes/pv-1"


@pytest.fixture
def write(run):
    """Does something with a writer; gives (WriteFailed or None, bodies of what was sent)."""

    def start(deed, path, answer):
        outcome = []

        async def scenario(server, connection):
            server.on("PATCH", path, answer)
            failure = await failure_of(deed(ApiVolumeWriter(connection, RealClock())))
            outcome.extend((failure, [seen.body for seen in server.seen]))

        run(scenario)
        return outcome

    return start


def annotate(writer):
    return writer.annotate_claim(CLAIM, {"volume.kubernetes.io/selected-node": "n1"})


def reserve(writer):
    return writer.reserve_volume(VOLUME, CLAIM)


def test_annotations_are_merged_into_the_very_claim(write):
    failure, bodies = write(annotate, CLAIM_PATH, Answer())
    assert failure is None
    assert bodies == [{"metadata": {"uid": "c1", "annotations": {"volume.kubernetes.io/selected-node": "n1"}}}]


def test_a_volume_is_reserved_in_the_version_that_was_chosen(write):
    failure, bodies = write(reserve, VOLUME_PATH, Answer())
    assert failure is None
    assert bodies == [
        {
            "metadata": {"uid": "v1", "resourceVersion": "7", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": "shop",
                    "name": "data",
                    "uid": "c1",
                    "resourceVersion": "8",
                }
            },
        }
    ]


@pytest.mark.parametrize(
    ("deed", "path", "answer", "expected"),
    [
        (annotate, CLAIM_PATH, refused(404), "gone"),
        (annotate, CLAIM_PATH, refused(422, "Invalid", "metadata.uid: field is immutable"), "gone"),
        (annotate, CLAIM_PATH, refused(500), "retriable"),
        (reserve, VOLUME_PATH, refused(404), "gone"),
        (reserve, VOLUME_PATH, refused(409, "Conflict"), "retriable"),
    ],
)
def test_a_failed_write_says_whether_it_makes_sense_to_try_again(write, deed, path, answer, expected):
    failure, _ = write(deed, path, answer)
    assert [name for name in ("retriable", "gone") if getattr(failure, name)] == [expected]

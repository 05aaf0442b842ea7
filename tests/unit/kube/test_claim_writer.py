"""Claims are written only in the version that was read; events wait meanwhile, and a new claim of the same name is not changed."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.kube.conftest import RealClock
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import WriteFailed
from wharfinger.kube.claim_writes import ApiClaimWriter
from wharfinger.model import objects

CLAIM = objects.ResourceClaim(metadata=objects.ObjectMeta(name="gpu", namespace="shop", uid="c1", resource_version="8"))
CLAIM_PATH = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu"
PATH = f"{CLAIM_PATH}/status"


def test_a_write_is_in_flight_until_it_is_carried_out_or_refused(run) -> None:
    seen = []

    async def scenario(server, connection) -> None:
        writer = ApiClaimWriter(connection, RealClock())
        server.on("PATCH", PATH, refused(403), Answer(body={"kind": "ResourceClaim"}))
        for _ in range(2):
            writing = asyncio.create_task(writer.deallocate(CLAIM))
            await asyncio.sleep(0)
            seen.append(writer.in_flight)
            (outcome,) = await asyncio.gather(writing, return_exceptions=True)
            seen.append((type(outcome), writer.in_flight))

    run(scenario)
    assert seen == [1, (WriteFailed, 0), 1, (type(None), 0)]


def read_again(uid: str) -> Answer:
    """The object of the API server with the name of the claim."""
    return Answer(body={"kind": "ResourceClaim", "metadata": {"name": "gpu", "namespace": "shop", "uid": uid, "resourceVersion": "9"}})


@pytest.mark.parametrize(("uid", "deleted"), [("c1", True), ("c2", False)])
def test_a_newer_claim_of_the_same_name_is_not_deleted(run, uid, deleted) -> None:
    async def scenario(server, connection) -> None:
        server.on("PATCH", CLAIM_PATH, refused(409, "Conflict"), Answer(body={"kind": "ResourceClaim"}))
        server.on("GET", CLAIM_PATH, read_again(uid))
        server.on("DELETE", CLAIM_PATH, Answer())
        await ApiClaimWriter(connection, RealClock()).delete(CLAIM)
        assert [seen.body["preconditions"] for seen in server.requests("DELETE")] == [{"uid": "c1"}] * deleted
        assert [seen.body["metadata"]["uid"] for seen in server.requests("PATCH")] == ["c1"] * (1 + deleted)

    run(scenario)

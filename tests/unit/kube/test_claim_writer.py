"""While claims are written, events wait: bindings wait for claims."""

from __future__ import annotations

import asyncio

from tests.unit.kube.conftest import RealClock
from tests.unit.kube.scripted_server import Answer, refused
from wharfinger.framework.ports import WriteFailed
from wharfinger.kube.claim_writes import ApiClaimWriter
from wharfinger.model import objects

CLAIM = objects.ResourceClaim(metadata=objects.ObjectMeta(name="gpu", namespace="shop", uid="c1", resource_version="8"))
PATH = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu/status"


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

"""PolicyApps that are being deleted, with finalizers of their own and of others."""

import asyncio

import msgspec
import pytest
from msgspec import structs

from tests.in_memory import ManualClock
from wharfinger.crd import FINALIZER
from wharfinger.crd.models import PolicyAppSpec
from wharfinger.kube.api_errors import NotFound
from wharfinger.kube.custom_resources import KINDS, PolicyApp, path_of
from wharfinger.model.reading import decode
from wharfinger.operator import app_objects
from wharfinger.operator.controller import AppPods, ObjectCache
from wharfinger.operator.policy_app import OWN_POLICY_RECHECK_SECONDS, RESYNC_SECONDS, AdmittedApps, PolicyAppReconciler

FOREIGN = "example.com/never"
DELETED = "2026-01-01T00:00:00Z"


class World:
    """An app and its objects, on an API server in memory that the cache follows; `stuck` kinds stay when they are deleted."""

    def __init__(self, *finalizers, stuck=()):
        self._stuck = stuck
        self.requests = []
        self.cache = ObjectCache(["PolicyApp", "Deployment", "Service", "SchedulingPolicy"])
        metadata = {"name": "web", "namespace": "shop", "uid": "u", "finalizers": list(finalizers), "deletionTimestamp": DELETED}
        spec = {"image": "web:1", "port": 80, "policy": {"inline": 'policy "p"\nscore s = 1\n'}}
        app = decode.convert({"metadata": metadata, "spec": spec}, PolicyApp)
        self.objects = {}
        self.put("PolicyApp", app)
        read = PolicyAppSpec.model_validate(spec)
        for body in (app_objects.deployment(app.metadata, read), app_objects.service(app.metadata, read)):
            self.put(body["kind"], decode.convert(body, KINDS[body["kind"]]))
        body = app_objects.inline_policy(app.metadata, read)
        self.put(body["kind"], decode.convert(body, KINDS[body["kind"]]))
        self.reconciler = PolicyAppReconciler(
            self.cache, AppPods(lambda _key: None), self, None, None, ManualClock(), AdmittedApps(9, lambda _key: None)
        )

    def put(self, kind, obj):
        self.objects[kind] = obj
        self.cache.upsert(kind, obj)

    async def get(self, path):
        self.requests.append(f"GET {path.rsplit('/', 2)[-2]}")
        found = next((obj for obj in self.objects.values() if path_of(obj) == path), None)
        if found is None:
            raise NotFound(path)
        return msgspec.to_builtins(found)

    async def delete(self, obj):
        kind = type(obj).__name__
        self.requests.append(f"DELETE {kind}")
        if kind in self._stuck:
            meta = structs.replace(obj.metadata, deletion_timestamp=self.app.metadata.deletion_timestamp)
            self.put(kind, structs.replace(obj, metadata=meta))
        else:
            self.cache.delete(kind, self.objects.pop(kind))

    async def set_finalizers(self, obj, finalizers):
        self.put("PolicyApp", structs.replace(obj, metadata=structs.replace(obj.metadata, finalizers=tuple(finalizers))))

    @property
    def app(self):
        return self.objects["PolicyApp"]

    def reconciled(self):
        """Seconds until the next reconcile, and the requests of this one."""
        self.requests.clear()
        again = asyncio.run(self.reconciler.reconcile("shop/web"))
        return again, list(self.requests)


@pytest.mark.parametrize("own", [True, False], ids=["with our finalizer", "without ours"])
def test_an_app_that_somebody_else_holds_loses_its_objects_and_the_policy_last(own):
    world = World(*([FINALIZER] if own else []), FOREIGN)
    assert world.reconciled()[0] == OWN_POLICY_RECHECK_SECONDS
    assert set(world.objects) == {"PolicyApp", "SchedulingPolicy"}
    assert world.reconciled()[0] is None
    assert set(world.objects) == {"PolicyApp"}
    assert world.app.metadata.finalizers == (FOREIGN,)
    assert world.reconciled() == (None, [])


@pytest.mark.parametrize("own", [True, False], ids=["with our finalizer", "without ours"])
def test_the_policy_stays_while_the_deployment_is_being_deleted_which_is_looked_at_seldom(own):
    world = World(*([FINALIZER] if own else []), FOREIGN, stuck={"Deployment"})
    assert world.reconciled()[0] == OWN_POLICY_RECHECK_SECONDS
    again, requests = world.reconciled()
    assert again == RESYNC_SECONDS
    assert not [each for each in requests if each.startswith("DELETE")]
    assert "SchedulingPolicy" in world.objects

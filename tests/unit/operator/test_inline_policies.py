"""The SchedulingPolicy of an inline policy: made once for each generation of an app, and not by the thread that schedules."""

import asyncio
import threading
import traceback

import pytest
from msgspec import structs

from tests.in_memory import ManualClock
from wharfinger.crd.models import PolicyAppSpec
from wharfinger.kube.custom_resources import PolicyApp
from wharfinger.language.report.diagnostics import PolicyError
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.operator import app_objects
from wharfinger.operator.policy_app import InlinePolicies

APP = PolicyApp(metadata=ObjectMeta(name="web", namespace="shop", uid="u", generation=1))


def spec(text):
    return PolicyAppSpec.model_validate({"image": "web:1", "policy": {"inline": text}})


@pytest.fixture
def made(monkeypatch):
    """The threads that texts were read in."""
    real, threads = app_objects.inline_policy, []

    def counting(app, spec):
        threads.append(threading.current_thread())
        return real(app, spec)

    monkeypatch.setattr(app_objects, "inline_policy", counting)
    return threads


def test_a_text_is_read_once_and_elsewhere(made):
    async def story():
        policies = InlinePolicies(ManualClock())
        first = await policies.of(APP.metadata, spec('policy "p"'))
        assert await policies.of(APP.metadata, spec('policy "p"')) is first
        assert first["metadata"]["name"] == "shop.web"
        edited = structs.replace(APP, metadata=structs.replace(APP.metadata, generation=2))
        assert "version" in (await policies.of(edited.metadata, spec('policy "p" version "2"')))["spec"]["source"]
        policies.forget("shop/web")
        await policies.of(edited.metadata, spec('policy "p" version "2"'))
        assert await policies.of(ObjectMeta(name="x"), PolicyAppSpec(image="x")) is None

    asyncio.run(story())
    assert len(made) == 3
    assert threading.main_thread() not in made


def test_an_error_is_found_once_and_raised_each_time(made):
    async def story():
        policies, lengths = InlinePolicies(ManualClock()), []
        for _ in range(3):
            with pytest.raises(PolicyError, match="P10") as caught:
                await policies.of(APP.metadata, spec("policy p"))
            lengths.append(len(traceback.extract_tb(caught.value.__traceback__)))
        assert lengths == [lengths[0]] * 3, "a traceback that grows is memory that grows"

    asyncio.run(story())
    assert len(made) == 1

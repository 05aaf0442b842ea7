"""What is applied is JSON that the API server reads as YAML: it has the same meaning in both."""

from __future__ import annotations

import asyncio
import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.work import calls
from wharfinger.kube.custom_resources import ObjectWriter, PlacementPreview, json_as_yaml
from wharfinger.model.objects import ObjectMeta

ODD = '\x7f \x80 \x85 \x9b \x9f \u2028 \u2029 \ufeff \ufffe \uffff \x1b \t \n \u202e \U0001f600 \\u007f "'
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXTS)
@example(ODD)
def test_any_text_is_the_same_in_json_and_in_yaml(text):
    content = json_as_yaml({"a": {text: [text]}})

    assert json.loads(content) == yaml.safe_load(content.decode()) == {"a": {text: [text]}}


def test_many_such_characters_are_not_replaced_one_by_one():
    """An app may have 64 variables of 4,096 characters: with a call for each of them, one step of the event loop took 75 ms."""
    assert calls(lambda: json_as_yaml({"env": "\u2028x" * 128_000})) < 100


class Sent:
    """A connection that keeps the bodies and answers each request with an empty object."""

    def __init__(self):
        self.bodies = []

    async def request(self, *_, body, **__):
        self.bodies.append(body)
        return b"{}"


@pytest.mark.parametrize("part", ["spec", "status"])
def test_objects_and_statuses_are_applied_so(part):
    sent = Sent()
    writer = ObjectWriter(sent)
    preview = PlacementPreview(metadata=ObjectMeta(name="p", namespace="shop", uid="u", resource_version="1"))
    made = {"kind": "PlacementPreview", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"message": ODD}}
    asyncio.run(writer.apply(made) if part == "spec" else writer.apply_status(preview, {"message": ODD}))

    assert [yaml.safe_load(body.decode())[part] for body in sent.bodies] == [{"message": ODD}]

"""A ConfigMap as a source of policies."""

from __future__ import annotations

import pytest

from tests.unit.kube.conftest import RealClock, Recorder, running, until
from tests.unit.kube.scripted_server import QUIET, Answer, Stream, refused
from wharfinger.errors import UsageError
from wharfinger.kube.policy_configmap import ConfigMapSource

PATH = "/api/v1/namespaces/team-a/configmaps"


class Sink:
    def __init__(self):
        self.said = []
        self.notes = ()

    def offer(self, source, texts, *, notes=()):
        self.said.append({key: (text.name, text.content.decode(), text.about.uid) for key, text in texts.items()})
        self.wanted = {key: text.wanted for key, text in texts.items()}
        self.notes = notes

    def mark_unreadable(self, source, why):
        self.said.append(why)


def config_map(version, data, **more):
    metadata = {"name": "policies", "namespace": "team-a", "uid": "u1", "resourceVersion": version}
    return {"metadata": metadata, "data": data, **more}


def listed(*items):
    return Answer(body={"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": list(items)})


@pytest.fixture
def sink_after(run):
    """The sink after a list and a watch, once it has that many entries; and the queries."""

    def start(count, first, *watches):
        found = []

        async def scenario(server, connection):
            queries, script, sink, recorder = [], [first, *watches, QUIET], Sink(), Recorder()

            def answer(seen):
                queries.append(seen.query)
                return script.pop(0) if len(script) > 1 else script[0]

            server.on("GET", PATH, answer)
            source = ConfigMapSource("team-a/policies", connection, RealClock(), recorder.emit)
            async with running(source.run(sink)):
                await until(lambda: len(sink.said) >= count)
            found.append((sink, queries))

        run(scenario)
        return found[0]

    return start


def test_keys_that_end_with_policy_are_its_texts_and_no_other_object_is_asked_for(sink_after):
    sink, queries = sink_after(1, listed(config_map("1", {"a.policy": "text", "README": "…"}, binaryData={"b.policy": "AA=="})))
    assert sink.said == [{"a.policy": ("team-a/policies/a.policy", "text", "u1")}]
    assert sink.notes == ("keys that are not read, because policies are text under keys that end with .policy: README, b.policy",)
    assert queries[0]["fieldSelector"] == "metadata.name=policies"


def test_a_key_allows_having_no_policies(sink_after):
    sink, _ = sink_after(1, listed(config_map("1", {"NO-POLICIES": "we begin without", "README": "…"})))
    assert list(sink.said[0]) == ["NO-POLICIES"]
    assert sink.wanted == {"NO-POLICIES": False}
    assert sink.notes == ("keys that are not read, because policies are text under keys that end with .policy: README",)


def test_changes_are_reported_and_a_deletion_is_a_loss(sink_after):
    changed, last = config_map("2", {"a.policy": "two"}), config_map("3", {"a.policy": "two"})
    lines = [{"type": "MODIFIED", "object": changed}, {"type": "DELETED", "object": last}]
    sink, _ = sink_after(3, listed(config_map("1", {"a.policy": "one"})), Stream(events=lines, hang=5))
    assert [said["a.policy"][1] if isinstance(said, dict) else said for said in sink.said] == [
        "one",
        "two",
        "the ConfigMap has been deleted",
    ]


def test_a_config_map_that_does_not_exist_is_lost(sink_after):
    assert sink_after(1, listed())[0].said == ["there is no such ConfigMap"]


def test_a_config_map_that_may_not_be_read_is_lost_with_the_reason(sink_after):
    assert "forbidden" in sink_after(1, refused(403, "Forbidden", "configmaps is forbidden"))[0].said[0]


@pytest.mark.parametrize("reference", ["policies", "/policies", "a/b/c", "a/"])
def test_a_config_map_is_named_with_its_namespace(reference):
    with pytest.raises(UsageError, match="NAMESPACE/NAME"):
        ConfigMapSource(reference, None, RealClock(), print)

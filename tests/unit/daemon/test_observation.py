"""The settings of the decision log and of traces, and the explanations of a running scheduler."""

import asyncio
import json
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from tests.observed import subscribed
from tests.unit.scheduler.running import Running, Watching, node, pod, view
from tests.unit.simulate.clusters import policy
from tests.unit.telemetry.test_recent_decisions import Timer, attempt
from tests.unit.web.test_policies import status
from wharfinger.daemon.observation import decision_pages, recorder_of, traces_of
from wharfinger.daemon.pages import Health, policy_pages
from wharfinger.daemon.settings import DecisionLogSettings, Settings, TracingSettings, read_settings
from wharfinger.emit import ignore
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.event_loop import SystemClock
from wharfinger.framework.chain import assemble
from wharfinger.framework.policy_status import Mode
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.shadow import Disagreement, ShadowReport
from wharfinger.scheduler.live_answers import LiveExplanations
from wharfinger.telemetry.recent_decisions import RecentDecisions


def test_nothing_is_explained_before_the_cluster_is_known():
    shown = decision_pages(RecentDecisions(lambda: 0.0, Timer()), Health(), LiveExplanations(SystemClock()))
    with pytest.raises(WharfingerError, match="the cluster is not known yet"):
        asyncio.run(shown.explain("default/a", []))


def recording(settings, emit, use):
    async def run():
        async with AsyncExitStack() as opened:
            found = recorder_of(settings, emit, opened)
            use(found)
            await asyncio.sleep(0.2)

    asyncio.run(run())


def test_decisions_are_recorded_only_where_that_is_wanted(tmp_path):
    recording(None, Watching().emit, lambda found: pytest.fail("recorded") if found is not None else None)
    path = tmp_path / "log"
    recording(DecisionLogSettings(path=str(path)), Watching().emit, lambda found: (found.state.add_node(node("n1")), found.begin()))
    assert '"t":"node"' in path.read_text()
    with pytest.raises(UsageError, match="cannot be written"):
        recording(DecisionLogSettings(path=str(tmp_path / "none" / "log")), Watching().emit, lambda found: None)


def test_an_exception_in_the_writing_thread_is_reported_on_the_loop(tmp_path):
    seen = Watching()

    def break_it(found):
        found._writer._begin_file = None
        found.begin()

    recording(DecisionLogSettings(path=str(tmp_path / "log")), seen.emit, break_it)
    assert [where for where, _ in seen.failures] == ["decision log"]


def test_no_pod_is_traced_unless_that_is_set():
    with_tracing = TracingSettings(endpoint="http://127.0.0.1:1", sampling_ratio=0)

    async def run():
        async with AsyncExitStack() as opened:
            assert traces_of(None, ignore, SystemClock(), opened) is None
            traces = traces_of(with_tracing, ignore, SystemClock(), opened)
            subscribed(traces.handlers).emit(attempt(view("a")))

    asyncio.run(run())


def test_the_path_of_a_log_is_taken_from_the_folder_of_the_settings(tmp_path):
    file = tmp_path / "settings.yaml"
    head = "apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n"
    file.write_text(f"{head}decisionLog: {{path: log/decisions.jsonl, maxFiles: 3}}\ntracing: {{endpoint: 'http://collector:4318'}}\n")
    settings = read_settings(str(file))
    assert settings.decision_log == DecisionLogSettings(path=str(tmp_path / "log" / "decisions.jsonl"), max_files=3)
    assert settings.tracing == TracingSettings(endpoint="http://collector:4318")
    assert Settings().decision_log is None


@pytest.mark.parametrize("wrong", ["decisionLog: {}", "decisionLog: {path: a, maxFiles: 0}", "tracing: {endpoint: collector}"])
def test_settings_that_make_no_sense_are_refused(tmp_path, wrong):
    file = tmp_path / "settings.yaml"
    file.write_text(f"apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n{wrong}\n")
    with pytest.raises(UsageError, match=wrong.split(":", maxsplit=1)[0]):
        read_settings(str(file))


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        (
            "http://someone:s3cret@collector:4318",
            "the URL has a password in it; give it as a header, in the variable OTEL_EXPORTER_OTLP_HEADERS",
        ),
        ("http://collector:99999", "expected a URL such as http://collector:4318"),
        ("http://[collector", "expected a URL such as http://collector:4318"),
        ("http://:", "expected a URL such as http://collector:4318"),
        ("http://col lector", "expected a URL such as http://collector:4318"),
        ("http://collector/?key=s3cret", "expected the collector's URL, without a query"),
    ],
)
def test_an_invalid_endpoint_or_one_with_a_secret_is_refused(tmp_path, endpoint, says):
    file = tmp_path / "settings.yaml"
    file.write_text(f"apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\ntracing: {{endpoint: '{endpoint}'}}\n")
    with pytest.raises(UsageError) as error:
        read_settings(str(file))
    assert f"tracing.endpoint: {says}" in str(error.value)
    assert "s3cret" not in str(error.value)


def test_an_explanation_begins_with_what_was_decided_last():
    running = Running()
    running.cluster.put(node("n1"))
    running.cluster.put(pod("a"))
    recent, health = RecentDecisions(running.clock.now, Timer()), Health()
    health.daemon = SimpleNamespace(scheduler=running.scheduler)

    async def ask():
        running.cluster.connect(running.scheduler.sink)
        shown = decision_pages(recent, health, LiveExplanations(running.clock))
        before = await shown.explain("default/a", [])
        subscribed(recent.handlers).emit(attempt(view("a"), result="unschedulable", node=None, message="0/0 nodes"))
        return before, await shown.explain("default/a", [])

    (plain, text), (plain_later, text_later) = asyncio.run(ask())
    assert plain["lastDecision"] is None
    assert text.startswith("default/a → n1")
    assert plain_later["lastDecision"]["message"] == "0/0 nodes"
    assert text_later.startswith("last decision: 2023-11-14T22:13:20.000000Z unschedulable default/a 0/0 nodes")
    assert text_later.endswith(text)


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.SHADOW])
def test_an_explained_policy_comes_with_its_state_and_what_it_would_have_decided(mode):
    closed = assemble([policy('policy "mix"\nfilter off { reject node.name == "n1" else "closed" }')])
    chain = closed if mode is Mode.ENFORCE else assemble()
    running = Running({"wharfinger": chain})
    running.cluster.put(node("n1"))
    running.cluster.put(pod("a"))
    shadows = {"wharfinger": {"mix": closed} if mode is Mode.SHADOW else {}}
    held = status(name="mix", mode=mode, revision=closed.policies[0].revision, suspended="it took 40 ms")
    store = SimpleNamespace(active=ActivePolicies(chains={"wharfinger": chain}, shadows=shadows), statuses=(held,), sources=())
    report = ShadowReport(policy="mix", revision=held.revision, agreed=3, disagreed=2, unseen=1)
    report.last.append(
        Disagreement(
            pod="default/a",
            at=0.0,
            profile="wharfinger",
            node="n1",
            feasible=1,
            shadow_node=None,
            shadow_feasible=0,
            shadow_message="closed",
            policy_revision=held.revision,
        )
    )
    health = Health()
    health.daemon = SimpleNamespace(
        scheduler=running.scheduler,
        shadows=SimpleNamespace(reports={"mix": report}),
        signals=SimpleNamespace(metrics=(), metrics_of=lambda _policy: ()),
    )

    async def ask():
        running.cluster.connect(running.scheduler.sink)
        return await policy_pages(store, health, LiveExplanations(running.clock)).explain("mix")

    plain, text = asyncio.run(ask())
    assert (plain["profile"], plain["policy"], plain["status"]["name"]) == ("wharfinger", "mix", "mix")
    assert [(each["pod"], each["without"], each["chosen"]) for each in plain["differing"]] == [("default/a", "n1", None)]
    assert "  suspended: it took 40 ms\n" in text
    assert "  suspended in profile wharfinger since 2023-11-14T22:13:20Z, from policies/: a.policy\n" in text
    assert ("2 of 5 decisions otherwise; 1 not compared" in text) == (mode is Mode.SHADOW)
    shadow = json.loads(json.dumps(plain))["shadow"]
    assert (shadow and [case["shadowMessage"] for case in shadow["last"]]) == (["closed"] if mode is Mode.SHADOW else None)


def test_no_policy_is_explained_before_the_cluster_is_known():
    store = SimpleNamespace(active=ActivePolicies(chains={}), statuses=(), sources=())
    shown = policy_pages(store, Health(), LiveExplanations(SystemClock()))
    with pytest.raises(WharfingerError, match="the cluster is not known yet"):
        asyncio.run(shown.explain("mix"))

"""`wharf signals check` against a scripted Prometheus."""

import json
import re
import time
from typing import NamedTuple

import pytest

from tests import json_schemas
from tests.unit.signals.scripted import scripted, vector

POLICY = """
policy "hot"
metric load: percent = prometheus("load", node: "instance")
metric used: cpu = prometheus("used", node: "instance", server: "default")
filter cool {
  require load < 90% else "hot" on missing pass
  require used < 8cpu else "busy" on missing pass
}
"""
NODES = "\n---\n".join(
    f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
status: {{capacity: {{cpu: "8"}}, allocatable: {{cpu: "8", pods: "110"}}, addresses: [{{type: InternalIP, address: 10.0.0.{number}}}]}}
"""
    for number, name in enumerate(["a", "b", "c", "d"], 1)
)


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def wharf(wharf):
    return lambda *arguments: Run(*wharf(*arguments))


@pytest.fixture
def server():
    with scripted() as running:
        running.answers = {
            "load": {"a": "0.1", "10.0.0.2:9100": "0.2", "c": "0.3", "d": "0.4"},
            "used": dict(zip("abcd", "1234", strict=True)),
        }
        running.answer = lambda query: (200, vector(running.answers[query], at=time.time()))
        yield running


@pytest.fixture
def files(tmp_path):
    (tmp_path / "hot.policy").write_text(POLICY)
    (tmp_path / "nodes.yaml").write_text(NODES)
    return tmp_path


def check(wharf, files, server, *options):
    return wharf(
        "signals", "check", str(files / "hot.policy"), "--prometheus", server.url, "--snapshot", str(files / "nodes.yaml"), *options
    )


def test_signals_without_problems_are_listed_and_exit_with_0(wharf, files, server):
    run = check(wharf, files, server)
    assert (run.code, run.err) == (0, "")
    first, second = run.out.strip().split("\n\n")
    assert first.splitlines()[:2] == ["hot.load: percent", "  prometheus default: load"]
    assert "4 series · fresh on 4 of 4 nodes (100%, needs 80%) · 10 % to 40 % · newest 0 s old, at most 120 s" in first
    assert "1 cores to 4 cores" in second


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"a": "10", "b": "20", "c": "3", "d": "37"}, "warning: values up to 3,700 %: 100 % is 1 in the answer of a query; divide by 100?"),
        (
            {"a": "0.1"},
            "error: metric `load` of policy hot is fresh on 1 of 4 nodes (fewer than 80 %): the rules that use it are suspended",
        ),
        ({"a": "0.1", "b": "0.2", "c": "0.3", "d": "0.4", "e:1": "1"}, 'warning: 1 series of no node, as instance="e:1"'),
        ({"a": "0.1", "b": "0.2", "c": "0.3", "d": "NaN"}, "warning: 1 series without a possible value, as nan for d"),
        ({}, "warning: the query gives no series"),
        (
            {"a": "1e308", "b": "0.2", "c": "0.3", "d": "0.4"},
            "warning: values up to inf %: 100 % is 1 in the answer of a query; divide by 100?",
        ),
        (dict.fromkeys("abcd", "0.5"), "warning: all 4 nodes have the same value, so it distinguishes no nodes"),
    ],
)
def test_suspicious_samples_are_reported(wharf, files, server, values, said):
    server.answers["load"] = values
    run = check(wharf, files, server)
    assert run.code == 1
    assert f"  {said}\n" in run.out


def test_millicores_are_not_cores(wharf, files, server):
    server.answers["used"] = {"a": "1000", "b": "2000", "c": "3000", "d": "4000"}
    run = check(wharf, files, server)
    assert "warning: values up to 500 times what the node has; the answer of a query is taken as cores" in run.out


def test_old_samples_do_not_count(wharf, files, server):
    server.answer = lambda query: (200, vector(server.answers[query], at=time.time() - 500))
    run = check(wharf, files, server)
    assert run.code == 1
    assert "fresh on 0 of 4 nodes (0%, needs 80%)" in run.out


def test_samples_of_a_clock_that_is_ahead_are_reported(wharf, files, server):
    server.answer = lambda query: (200, vector(server.answers[query], at=1_000 * time.time()))
    run = check(wharf, files, server)
    assert run.code == 1
    assert "warning: 4 series with a time in the future, as a, " in run.out
    assert "are the clocks not synchronised, or is the time in milliseconds?" in run.out


def test_warnings_of_the_server_are_shown(wharf, files, server):
    server.answer = lambda query: (
        200,
        json.dumps({**json.loads(vector(server.answers[query], at=time.time())), "warnings": ["one\nstore"]}),
    )
    run = check(wharf, files, server)
    assert run.code == 1
    assert "  warning: the server warns: one store\n" in run.out


def test_a_cluster_without_nodes_gives_no_verdict_about_samples(wharf, files, server):
    (files / "nodes.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    run = check(wharf, files, server)
    assert run.code == 1
    assert "error: there are no nodes to compare with: is that the right cluster?" in run.out


def test_a_node_that_cannot_be_read_is_reported(wharf, files, server):
    (files / "nodes.yaml").write_text(NODES.replace('allocatable: {cpu: "8"', 'allocatable: {cpu: "eight"', 1))
    run = check(wharf, files, server)
    assert run.code == 1
    assert "wharf: warning: " in run.err
    assert "nodes.yaml" in run.err
    assert "fresh on 3 of 3 nodes" in run.out


@pytest.mark.parametrize(
    ("slow", "sentence"),
    [
        ("nan", "Invalid value for '--slow': 'nan' is not a number; write one such as 5 or 0.5. Try 'wharf signals --help'."),
        ("-1", "--slow: expected seconds from 0 on, not -1"),
    ],
)
def test_slow_is_a_time(wharf, files, server, slow, sentence):
    run = check(wharf, files, server, "--slow", slow)
    assert (run.code, run.err) == (2, f"wharf: {sentence}\n")


def test_a_refusal_is_an_error_of_its_metric_alone(wharf, files, server):
    said = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error: unexpected end"})
    server.answer = lambda query: (400, said) if query == "load" else (200, vector(server.answers[query], at=time.time()))
    run = check(wharf, files, server)
    assert run.code == 1
    assert f"  error: {server.url} answers 400: parse error: unexpected end" in run.out
    assert run.out.count("error:") == 2  # the second is in the sentence


def test_a_slow_query_is_called_so(wharf, files, server):
    def slow(query):
        time.sleep(0.1)
        return 200, vector(server.answers[query], at=time.time())

    server.answer = slow
    run = check(wharf, files, server, "--slow", "0.05")
    assert run.code == 1
    assert re.search(r"warning: the answer took [\d.]+ s; it is queried every 15 s", run.out)


def test_the_json_has_coverage_and_range_of_each_metric(wharf, files, server):
    run = check(wharf, files, server, "--format", "json")
    load, used = json.loads(run.out)
    json_schemas.assert_holds("signals", [load, used])
    assert (load["policy"], load["metric"], load["coverage"], load["errors"], load["warnings"]) == ("hot", "load", 1.0, [], [])
    assert (used["least"], used["most"]) == (1000.0, 4000.0)


def test_without_nodes_only_series_are_counted(wharf, files, server):
    run = wharf("signals", "check", str(files / "hot.policy"), "--prometheus", server.url)
    assert run.code == 0
    assert "without --snapshot or --live there are no findings about nodes" in run.err
    assert "4 series · answered in" in run.out


def test_servers_and_policies_come_from_the_settings(wharf, files, server):
    (files / "wharf.yaml").write_text(
        "apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n"
        f"profiles: [{{policies: [hot.policy]}}]\nprometheus: {{default: {{url: '{server.url}', bearerTokenFile: token}}}}\n"
    )
    (files / "token").write_text("geheim")
    run = wharf("signals", "check", "--config", str(files / "wharf.yaml"), "--snapshot", str(files / "nodes.yaml"))
    assert run.code == 0
    assert {headers["Authorization"] for _, _, headers in server.asked} == {"Bearer geheim"}


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ('policy "p"\nscore s = 3\n', ["--prometheus", "http://x"], "has a metric"),
        (POLICY, [], "no Prometheus server: give its URL with --prometheus"),
        (POLICY, ["--prometheus", "prometheus:9090"], "expected a URL such as"),
        (POLICY, ["--prometheus", "http://me:secret@x"], "the URL has a password in it"),
    ],
)
def test_queries_that_cannot_be_sent_are_reported(wharf, files, text, options, said):
    (files / "hot.policy").write_text(text)
    run = wharf("signals", "check", str(files / "hot.policy"), *options)
    assert run.code == 2
    assert said in run.err
    assert "secret" not in run.err


def test_a_decision_without_its_metrics_is_explained(wharf, files):
    (files / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n")
    run = wharf("dry-run", "-s", str(files / "nodes.yaml"), "-p", str(files / "hot.policy"), "--pods", str(files / "pod.yaml"), "--explain")
    assert run.code == 0
    assert "note: hot: metric `load` is fresh on 0 of 4 nodes, fewer than 80 %: the rules that use it are suspended" in run.out


RATE = 'rate(used{path="[9h]"}[1m30s])'


def test_series_younger_than_the_lookback_of_the_query_are_reported(wharf, files, server):
    text = POLICY.replace('prometheus("load", node: "instance")', f"prometheus('{RATE}', node: \"instance\", window: 1min)")
    (files / "hot.policy").write_text(text)
    server.answers[RATE] = server.answers["load"]
    server.answers[f"last_over_time(({RATE})[1s:1s] offset 90s)"] = {"a": "0.9", "d": "0.1"}
    run = check(wharf, files, server)
    assert run.code == 1
    said = "the series of 2 nodes, as b, are younger than the 90s that the query looks back: rates over so little may be far off"
    assert f"  warning: {said}\n" in run.out
    server.answers[f"last_over_time(({RATE})[1s:1s] offset 90s)"] = server.answers["load"]
    assert check(wharf, files, server).code == 0


def test_no_warning_without_the_age_of_series(wharf, files, server):
    text = POLICY.replace('prometheus("load", node: "instance")', f"prometheus('{RATE}', node: \"instance\")")
    (files / "hot.policy").write_text(text)
    server.answers[RATE] = server.answers["load"]
    whole = server.answer
    server.answer = lambda query: (400, "no subqueries") if "offset" in query else whole(query)
    assert check(wharf, files, server).code == 0

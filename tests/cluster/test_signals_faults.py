"""Pods are placed at the usual speed while Prometheus gives wrong answers or none."""

import json
import threading
import time

import pytest

from tests.cluster.live import NAME
from tests.cluster.process import WharfProcess
from tests.cluster.waiting import eventually
from tests.unit.signals.scripted import body, scripted, vector

SETTINGS = """apiVersion: config.wharfinger.dev/v1alpha1
kind: WharfingerConfiguration
profiles: [{{policies: [policies]}}]
prometheus: {{default: {{url: "{url}", timeout: {timeout}}}}}
signals: {{minRefresh: 1s}}
logging: {{format: json}}
"""
POLICY = """policy "{name}"
metric load: percent = prometheus('{query}', node: "instance", refresh: 1s, max_age: {max_age}, min_coverage: 60%)
let predicted = load + ratio(unseen_requests(load).cpu + pod.requests.cpu, node.capacity.cpu)
filter cool {{ require predicted <= 95% else "hot" on missing pass }}
score idle weight 5 = curve(predicted, 0% -> 100, 100% -> 0) on missing neutral
"""


HANGS = 300
"""Seconds for which a server hangs: longer than anybody here waits for anything."""


@pytest.fixture
def server():
    with scripted() as running:
        yield running


@pytest.fixture
def wharf_on(control_plane, tmp_path):
    """A process that asks a server for one metric, or many."""

    def make(url, *, queries=("load",), timeout="1s", max_age="2s"):
        folder = tmp_path / "policies"
        folder.mkdir(exist_ok=True)
        for number, query in enumerate(queries):
            (folder / f"{number}.policy").write_text(POLICY.format(name=f"p{number}", query=query, max_age=max_age))
        (tmp_path / "wharf.yaml").write_text(SETTINGS.format(url=url, timeout=timeout))
        return WharfProcess(control_plane, f"--config={tmp_path / 'wharf.yaml'}")

    return make


@pytest.fixture
def all_placed(control_plane, pods):
    """Creates pods and waits until they are bound and the log says so."""

    def place(wharf, prefix, number):
        names = set(pods(number, prefix=prefix, scheduler=NAME, cpu="10m", memory="1Mi"))

        def lines():
            found = [json.loads(line) for line in wharf.log.splitlines() if line.startswith('{"') and '"attempt"' in line]
            return [line for line in found if line.get("result") == "scheduled" and line["pod"].partition("/")[2] in names]

        eventually(lambda: len(lines()) == number, every=0.5)
        return lines()

    return place


def good(names, value="0.5"):
    return lambda _query: (200, vector(dict.fromkeys(names, value), at=time.time()))


def failures(wharf, kind):
    line = f'wharfinger_signal_refresh_failures_total{{kind="{kind}",server="default"}} '
    return sum(float(each.removeprefix(line)) for each in wharf.get("/metrics")[1].splitlines() if each.startswith(line))


def series(wharf, state):
    line = f'wharfinger_signal_series{{metric="p0.load",state="{state}"}} '
    return sum(float(each.removeprefix(line)) for each in wharf.get("/metrics")[1].splitlines() if each.startswith(line))


def suspended(wharf):
    return 'wharfinger_signal_suspended{metric="load",policy="p0"} 1.0' in wharf.get("/metrics")[1]


REFUSALS = {
    "string": (lambda: (200, body("string", [1.0, "hello"])), "answer"),
    "not JSON": (lambda: (200, "<html>log in</html>"), "answer"),
    "401": (lambda: (401, "unauthorized"), "credentials"),
    "422": (lambda: (422, json.dumps({"status": "error", "error": "many-to-many matching"})), "query"),
    "503": (lambda: (503, ""), "overloaded"),
    "30 s": (lambda: lambda _handler: time.sleep(30), "timeout"),
}


def test_refusals_change_nothing_but_the_age(nodes, all_placed, server, wharf_on):
    names = nodes(20, cpu="64")
    server.answer = good(names)
    with wharf_on(server.url) as wharf:
        eventually(lambda: series(wharf, "matched") == 20)
        for number, (answer, kind) in enumerate(REFUSALS.values()):
            before = failures(wharf, kind)
            server.answer = lambda _query, answer=answer: answer()
            eventually(lambda: failures(wharf, kind) > before)  # noqa: B023 — asked here
            eventually(lambda: suspended(wharf))
            all_placed(wharf, f"refused-{number}", 5)
            server.answer = good(names)
            eventually(lambda: not suspended(wharf))
        assert wharf.terminate() == 0


def test_odd_series_are_left_out_and_reported(nodes, all_placed, server, wharf_on):
    names = nodes(20, cpu="64")
    odd = dict(zip(names, ["NaN", "+Inf", "-Inf", "nonsense"], strict=False)) | dict.fromkeys(names[4:], "0.5")
    twice = json.loads(vector(odd, at=time.time()))
    twice["data"]["result"].append({"metric": {"instance": f"{names[5]}:9100"}, "value": [time.time(), "0.9"]})
    twice["data"]["result"].append({"metric": {"job": "x"}, "value": [time.time(), "0.9"]})
    server.answer = lambda _query: (200, json.dumps(twice))
    with wharf_on(server.url, max_age="1h") as wharf:
        eventually(lambda: series(wharf, "invalid") == 4)
        counts = {state: series(wharf, state) for state in ("matched", "doubled", "unlabelled", "unmatched")}
        assert counts == {"matched": 15, "doubled": 1, "unlabelled": 1, "unmatched": 0}
        all_placed(wharf, "odd", 20)

        flood = {f"container-{number}": "1" for number in range(50_000)} | dict.fromkeys(names, "0.5")
        flooded = vector(flood, at=time.time())
        server.answer = lambda _query: (200, flooded)
        eventually(lambda: series(wharf, "unmatched") == 50_000)
        assert series(wharf, "matched") == 20
        all_placed(wharf, "flooded", 50)
        eventually(lambda: "signal has odd series" in wharf.log)


def test_no_decision_waits_for_a_server_that_hangs(nodes, all_placed, server, wharf_on):
    names = nodes(200, cpu="64")
    server.answer = good(names)
    with wharf_on(server.url, queries=[f"q{number}" for number in range(5)], timeout=f"{HANGS}s", max_age="1h") as wharf:
        eventually(lambda: series(wharf, "matched") == 200)
        all_placed(wharf, "answered", 400)
        release, hanging = threading.Event(), []

        def hang(_handler):
            hanging.append(release.wait(HANGS))

        server.answer = lambda _query: hang
        asked = len(server.asked)
        eventually(lambda: len(server.asked) >= asked + 3)
        all_placed(wharf, "hanging", 400)
        assert wharf.terminate() == 0  # the thread that hangs is not waited for
        assert hanging == [], "no decision has waited for an answer: there was none"
        release.set()


def test_a_storm_of_refreshes_is_three_at_a_time(nodes, all_placed, server, wharf_on):
    names = nodes(20, cpu="64")
    under_way, most, lock = [0], [0], threading.Lock()

    def slow(query):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.05)
        with lock:
            under_way[0] -= 1
        return good(names)(query)

    server.answer = slow
    with wharf_on(server.url, queries=[f"q{number}" for number in range(60)], timeout="60s", max_age="1h") as wharf:
        eventually(lambda: len({query for _, query, _ in server.asked}) == 60)
        all_placed(wharf, "storm", 50)
        assert most[0] == 3

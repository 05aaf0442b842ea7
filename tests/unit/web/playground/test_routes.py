"""The playground without a browser: access, requests and responses."""

import gzip
import json

import pytest

from tests.in_memory import ManualClock
from tests.unit.web.asking import FAR, NEAR, asking
from wharfinger.simulate.cluster import load_cluster
from wharfinger.web.playground.clusters import Examples, OwnClusters
from wharfinger.web.playground.workbench import MAX_TEXT_LENGTH, Workbench, routes

POLICY = """policy "p"
filter team when pod.priority >= 0 { require (node.labels["team"] ?? "") == "search" else "not of the team" }
prefer ssd weight 2 = (node.labels["disktype"] ?? "") == "nvme"
test "goes home" {
  node home { labels: { team: "search", disktype: "nvme" } }
  node other { }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect web on home
  expect other rejected by team
}
test "a wrong wish" {
  node home { labels: { team: "search" } }
  pod web { requests: { cpu: 1cpu } }
  place web
  expect home scores ssd == 100
}
"""
SMALL = "example:small"


def post(path, question, client=NEAR, kind="application/json", clusters=None, **more):
    body = question if isinstance(question, bytes) else json.dumps(question).encode()
    web = asking(extra_routes=routes(Workbench(clusters or Examples(), ManualClock()), **more), client=client)
    return web.request("POST", f"/ui/playground/{path}", content=body, headers={"host": "localhost", "content-type": kind})


def get(path, client=NEAR, clusters=None, host="localhost"):
    web = asking(extra_routes=routes(Workbench(clusters or Examples(), ManualClock())), client=client)
    return web.get(f"/ui/playground{path}", headers={"host": host})


def decided(**more):
    answer = post("decide", {"text": POLICY, "cluster": SMALL, "pod": "shop/query", **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_text_is_checked_as_wharf_check_does():
    found = post("check", {"text": 'policy "p"\nfilter a { require node.lables["x"] == "y" }\n'}).json()

    (error,) = found["found"]
    assert (error["line"], error["column"], error["severity"], error["code"]) == (2, 25, "error", "P302")
    assert (found["policy"], found["tests"]) == (None, None)
    assert {"from": 0, "to": 6, "kinds": ["keyword"]} in found["tokens"]


def test_tests_are_shown_with_their_values():
    found = post("check", {"text": POLICY}).json()

    good, bad = found["tests"]
    (attempt,) = good["placed"]
    assert (good["passed"], attempt["pod"], attempt["node"]) == (True, "web", "home")
    home, other = attempt["nodes"]
    assert (home["node"], home["passes"], home["totals"] != []) == ("home", True, True)
    assert [verdict["sentences"] for verdict in other["verdicts"] if verdict["sentences"]] == [["not of the team"]]
    assert not bad["passed"]
    assert bad["failures"][0]["message"].startswith("home has 0 points of ssd")
    assert POLICY[bad["failures"][0]["from"] :].startswith("expect home scores")


GROUPED = """policy "grouped"
group by pod.labels["job"] { min_count 2 within required "rack" }
test "in one rack" {
  node a { cpu: 1cpu, labels: { rack: "r1" } }
  node b { cpu: 2cpu, labels: { rack: "r2" } }
  pod w_1 { labels: { job: "llm" }, requests: { cpu: 1cpu } }
  pod w_2 like w_1
  place group llm
  expect group llm together in "rack"
}
"""
WITH_DEVICES = """policy "models"
filter has { require count(devices where it.attributes["model"] == "A100" and not it.taken, on: node) > 0 else "none" on missing reject }
test "the first free one" {
  node a { devices: [{ count: 2, attributes: { model: "A100" } }] }
  node b { devices: [{ attributes: { model: "T4" } }] }
  pod w { devices: { "gpu.example.com": 1 } }
  place w
  expect w on device "gpu-0"
}
"""


def test_tests_of_groups_report_the_node_of_each_member():
    (test,) = post("check", {"text": GROUPED}).json()["tests"]
    assert test["passed"]
    assert [(each["pod"], each["node"]) for each in test["placed"]] == [("w_1", "b"), ("w_2", "b")]


def test_tests_with_devices_tell_which_ones_a_pod_got():
    (test,) = post("check", {"text": WITH_DEVICES}).json()["tests"]
    assert test["passed"]
    assert [(each["node"], each["devices"]) for each in test["placed"]] == [("a", ["gpu-0"])]


def test_places_are_in_the_units_of_a_browser():
    text = 'policy "p"\n# \U0001f6a2 a ship takes two units\nfilter a { require nod.ready }\n'

    (error,) = post("check", {"text": text}).json()["found"]

    assert text.encode("utf-16-le")[2 * error["from"] : 2 * error["to"]].decode("utf-16-le") == "nod"


def test_completion_has_the_labels_of_the_cluster():
    text = 'policy "p"\nfilter a { require node.labels["'

    labels = [item["label"] for item in post("complete", {"text": text, "at": len(text), "cluster": SMALL}).json()["items"]]
    fields = [item["label"] for item in post("complete", {"text": text, "at": text.index("labels")}).json()["items"]]

    assert "karpenter.sh/capacity-type" in labels
    assert "labels" in fields


def test_words_are_explained_and_texts_are_formatted():
    text = 'policy "p"\nfilter a{require node.free.cpu>1cpu else "x"}\n'

    found = post("hover", {"text": text, "at": text.index("free") + 6}).json()

    assert "cpu" in found["text"]
    assert post("format", {"text": text}).json()["text"].endswith('  require node.free.cpu > 1cpu else "x"\n}\n')
    assert post("format", {"text": "policy {"}).json() == {"text": None}


def test_a_pod_is_decided_about_with_the_policy_and_without_it():
    found = decided()

    assert found["policy"] == "p"
    assert found["explanation"]["node"] in {"node-003", "node-010"}
    assert {step["rule"]: step["alone"] for step in found["explanation"]["steps"]}["p/team"] == 2
    assert sorted(value >= 0 for value in found["colors"]["values"]) == [False] * 10 + [True] * 2
    assert found["difference"]["without"] == "node-007"
    assert "p/team" in found["difference"]["causes"][0]
    assert found["tiles"]["names"][0] == "node-000"
    assert found["node"] is None


def test_without_a_policy_the_rules_of_kubernetes_decide():
    found = decided(text="")

    assert (found["policy"], found["difference"], found["explanation"]["node"]) == (None, None, "node-007")


def test_known_tiles_are_not_sent_again_and_a_node_is_described_on_request():
    layout = decided()["layout"]

    found = decided(layout=layout, node="node-001")

    assert "tiles" not in found
    assert found["node"]["name"] == "node-001"
    assert found["explanation"]["asked"][0]["node"] == "node-001"


def test_questions_change_nothing():
    clusters = OwnClusters({"mine": load_cluster([SMALL])})
    ask = {"text": POLICY, "cluster": "given:mine"}
    placed = {**ask, "pod": "shop/web-000"}

    web = asking(extra_routes=routes(Workbench(clusters, ManualClock())))
    said = []
    for question in (placed, {**ask, "manifest": "{kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: []}}"}, placed):
        answer = web.request("POST", "/ui/playground/decide", json=question, headers={"host": "localhost"})
        assert answer.status_code == 200, answer.text
        said.append(answer.json())

    assert said[0] == said[2]
    assert said[0]["boundTo"] is not None
    assert said[1]["explanation"]["pod"] == "default/a"


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        ({"cluster": "openb:default"}, 404, "there is no cluster openb:default"),
        ({"cluster": "/etc/passwd"}, 404, "there is no cluster /etc/passwd"),
        ({"pod": "shop/nobody"}, 404, "this cluster has no pod shop/nobody"),
        ({"node": "nowhere"}, 404, "nowhere"),
        ({"manifest": "kind: ["}, 400, "the pod"),
        ({"manifest": "{apiVersion: v1, kind: Service, metadata: {name: a}}"}, 400, "there is no pod or workload in it"),
        ({"text": "x" * (MAX_TEXT_LENGTH + 1)}, 400, "the body is not a question"),
        ({"more": 1}, 400, "unknown field `more`"),
        ({"text": 'policy "p"\nlet f = pods where it.name != pod.name\nprefer a = count(f) > 1\nparam x: regex = 1\n'}, 200, ""),
    ],
)
def test_questions_that_cannot_be_answered_are_reported(question, status, said):
    answer = post("decide", {"text": POLICY, "cluster": SMALL, "pod": "shop/query", **question})
    assert (answer.status_code, said in answer.text) == (status, True)


@pytest.mark.parametrize("path", ["check", "complete", "hover", "format", "decide"])
def test_only_this_machine_may_ask_and_only_with_a_type_that_other_sites_cannot_send(path):
    question = {"text": "", "cluster": SMALL, "pod": "shop/query"} if path == "decide" else {"text": ""}

    assert post(path, question, client=FAR).status_code == 403
    assert post(path, question, client=FAR, public=True).status_code == 200
    assert post(path, question, kind="text/plain").status_code == 415
    assert post(path, b"{").status_code == 400
    assert post(path, b" " * (2**20 + 1)).status_code == 413


def test_the_page_comes_with_headers_that_let_it_run_its_own_files_only():
    answer = get("")

    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    refused = get("", host="evil.example")
    assert refused.status_code == 403
    assert "remoteUi" not in refused.text  # a setting of `wharf run`; `wharf playground` has none
    assert get("/static/editor.js").headers["content-type"].startswith("text/javascript")
    assert get("/static/editor.licenses.txt").status_code == 200
    assert get("/static/../workbench.py").status_code == 404


def test_files_are_taken_on_the_machine_of_the_author_only():
    cluster = json.dumps({"kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}}]}).encode()
    upload = {"kind": "application/octet-stream"}

    assert post("clusters?name=a.json", cluster, **upload).status_code == 404
    assert "uploads" in get("/start").text
    assert post("clusters?name=a.json", cluster, clusters=OwnClusters(), **upload).json() == {"key": "upload:1", "title": "a.json: 1 node"}
    packed = gzip.compress(cluster)
    assert post("clusters?name=a.gz", packed, clusters=OwnClusters(), **upload).json()["title"] == "a.gz: 1 node"
    assert "it is truncated" in post("clusters?name=a.gz", packed[:-4], clusters=OwnClusters(), **upload).text
    assert "not a gzip file" in post("clusters?name=a.gz", packed[:2] + b"no", clusters=OwnClusters(), **upload).text
    assert post("clusters?name=a.json", b"{}", clusters=OwnClusters(), **upload).status_code == 400
    assert post("clusters?name=a.json", cluster, clusters=OwnClusters(), kind="text/plain").status_code == 415
    refused = post("clusters?name=a.json", b'{"kind": "List", "items": []}', clusters=OwnClusters(), **upload)
    assert (refused.status_code, refused.text) == (400, "a.json: it has no nodes; `wharf snapshot` writes a file that has them\n")

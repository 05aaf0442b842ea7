"""The completion items at a position, which `|` marks in the text."""

import pytest

from wharfinger.authoring.completion.candidates import candidates
from wharfinger.authoring.document import Document
from wharfinger.authoring.known_cluster import KnownCluster
from wharfinger.simulate.cluster import load_cluster

BROKEN = "filter broken { require node.free.cpu >= (\n\n"
GROUPED = (
    'group by pod.labels["job"] { min_count 2 }\ntest "t" {\n  pod w { labels: { job: "llm" } }\n  pod v { labels: { job: "7b" } }\n  '
)
TEST = 'test "t" {\n  node a { labels: { zone: "z" } }\n  pod web { requests: { cpu: 1cpu } }\n  '


@pytest.fixture(scope="module")
def openb():
    return KnownCluster("openb:default", load_cluster(["openb:default"]))


def offered(text, cluster=None):
    at = text.index("|")
    text = text.replace("|", "", 1)
    return [offer.label for offer in candidates(Document("x.policy", text), at, cluster)]


CASES = [
    ("|", {"policy", "filter", "score", "test"}, {"require", "and", "node"}),
    ("let x = node.|", {"labels", "free", "pod_count", "unschedulable"}, {"cpu", "namespace"}),
    ("let x = node.free.|", {"cpu", "memory", "pods"}, {"labels"}),
    ("let x = pod.req|uests.cpu", {"requests", "priority"}, {"free"}),
    ("let x = count(pods where it.|)", {"node_name", "labels"}, {"free"}),
    ("let x = unseen_requests(load).|", {"cpu", "memory"}, {"labels"}),
    ("let a = 1\nlet x = |", {"a", "node", "pod", "ratio", "curve", "if", "pods", "true"}, {"x", "it", "and", "filter", "accepted"}),
    ('test "t" {\n  node b { devices: [{ |', {"driver", "count", "attributes"}, {"cpu", "labels"}),
    ("let x = count(devices where it.|)", {"driver", "attributes", "free", "taken"}, {"node_name", "labels"}),
    ("let x = count(pods where |)", {"it", "pod"}, set()),
    ("let x = 4|", {"4cpu", "4Gi", "4%", "4min"}, set()),
    ("let x = 4c|", {"4cpu"}, {"4Gi"}),
    ("let x = node.free.cpu |", {"and", "or", "in"}, {"filter", "ratio", "node"}),
    ("let |", set(), {"node", "filter"}),
    ("let f(x: |", {"memory", "set"}, {"node", "pod"}),
    ("let f(x: memory) = 1\nlet g(y: cpu) = |", {"y", "node"}, {"x", "g"}),
    ("param x: |", {"percent", "cpu", "set"}, {"node"}),
    ("param x: percent = 10% |", {"range"}, {"filter"}),
    ("metric m: percent = |", {"prometheus", "metrics_api"}, {"ratio"}),
    ('metric m: percent = prometheus("q", |)', {"node", "max_age", "server"}, {"ratio"}),
    ("filter a {\n  |\n}", {"require", "reject"}, {"filter", "place"}),
    ("filter a {\n  require true |\n}", {"else", "on", "and"}, {"filter"}),
    ("filter a {\n  require true on missing |\n}", {"pass", "reject"}, {"neutral", "keep"}),
    ("score a = 1 on missing |", {"neutral", "skip"}, {"pass"}),
    ("preemption {\n  never_evict when true on missing |\n}", {"keep", "evict"}, {"pass"}),
    ("score a = 1 normalize |", {"minmax", "max", "none"}, {"node"}),
    ("base kubernetes {\n  |\n}", {"NodeAffinity", "ImageLocality"}, {"node"}),
    ('group by pod.labels["job"] {\n  |\n}', {"min_count", "timeout", "within", "reserve"}, {"filter", "require", "required", "node"}),
    ('group by pod.labels["job"] {\n  within |\n}', {"required", "preferred"}, {"min_count", "filter"}),
    ('group by pod.labels["job"] {\n  disruption |\n}', {"group", "pod"}, {"min_count"}),
    ('group by pod.labels["job"] {\n  within required "|"\n}', {"topology.kubernetes.io/zone"}, set()),
    ("permit late {\n  |\n}", {"require", "reject"}, {"filter", "min_count"}),
    ("permit late |", {"timeout", "when"}, {"require", "within"}),
    ("let x = count(|)", {"group", "pods"}, {"min_count", "by"}),
    ("let x = pod.group.|", {"name", "size", "min", "placed"}, {"labels"}),
    (TEST + "expect group llm |", {"placed", "pending", "together"}, {"on", "rejected"}),
    (TEST + "place |", {"web", "group"}, {"a"}),
    (f"{GROUPED}place group |", {"llm", '"7b"'}, {"web", "group"}),
    (f"{GROUPED}expect group |", {"llm"}, {"placed"}),
    (TEST + "expect |", {"web", "group"}, set()),
    (TEST + "|", {"at", "node"}, set()),
    ("prefer |", {"device"}, {"node", "weight"}),
    ("prefer device |", set(), {"node", "pod", "weight"}),
    ("workload |", set(), {"node", "cpu"}),
    ("workload typical = |", {"[{ … }]"}, {"node", "ratio"}),
    ("workload typical = [{ cpu: 4cpu }, |", {"{ … }"}, {"node"}),
    ("workload typical = [{ cpu: 4cpu, |", {"gpu", "milli", "model", "weight"}, {"requests", "node"}),
    ("workload typical = [{ cpu: 4cpu }]\nscore s = fragmentation(|)", {"typical"}, set()),
    ("workload typical = [{ cpu: |\n\nlet late = 1\nlet x = |".replace("|", "", 1), {"late", "node"}, {"cpu"}),
    ("base kubernetes {\n  NodeResourcesFit with { |", {"strategy", "resources"}, {"cpu"}),
    ("@|", {"owner", "allow"}, {"node"}),
    (TEST + "|", {"node", "pod", "running", "metric", "place", "expect"}, {"filter", "require"}),
    (TEST + "expect web on |", {"a"}, {"web"}),
    (TEST + "expect web |", {"on", "pending", "not"}, {"filter"}),
    (TEST + "node b { |", {"cpu", "labels", "taints"}, {"requests"}),
    (TEST + "pod b { cpu: 1, |", {"requests", "tolerations"}, {"taints"}),
    ("filter f { require true }\nscore s = 1\n" + TEST + "expect a rejected by |", {"f"}, {"s"}),
    ("filter f { require true }\nscore s = 1\n" + TEST + "expect a scores |", {"s"}, {"f"}),
    ('filter a { require true else "only {node.|} left" }', {"free", "labels"}, {"cpu"}),
    ("let x = 1 # what |", set(), {"and", "node"}),
    ('let x = taints(node, "|")', {"NoSchedule", "NoExecute"}, set()),
    ('let x = untolerated_taints(pod, node, effect: "|")', {"NoSchedule", "NoExecute"}, set()),
    ('let x = pod.qos == "|"', {"Guaranteed", "BestEffort"}, set()),
    ('let x = node.labels["|"]', {"topology.kubernetes.io/zone"}, set()),
    (BROKEN + "let late = 1\nlet x = |", {"late", "node"}, {"filter"}),
    (BROKEN + "let late = 1\nscore s = node.|", {"free", "labels"}, set()),
]


@pytest.mark.parametrize(("text", "there", "not_there"), CASES, ids=[case[0].replace("\n", " ") for case in CASES])
def test_each_place_offers_what_fits_there(text, there, not_there):
    found = set(offered(text))
    assert there <= found
    assert not not_there & found


OF_CLUSTER = [
    ('let x = node.labels["|"]', "nvidia.com/gpu.product"),
    ('let x = node.labels["nvidia.com/gpu.product"] == "|"', "T4"),
    ('let x = (node.labels["nvidia.com/gpu.product"] ?? "") in ["a", "|"]', "T4"),
    ('let x = node.labels matches "|"', "nvidia.com/gpu.product"),
    ('let x = node.labels matches "a=b, !nv|"', "nvidia.com/gpu.product"),
    ('let x = node.labels matches "nvidia.com/gpu.product=|"', "T4"),
    ('let x = node.labels matches "a, nvidia.com/gpu.product notin (P100, |)"', "T4"),
    ('let x = node.free["|"]', "nvidia.com/gpu"),
    ('let x = pod.namespace == "|"', "openb"),
    ('let x = count(devices where it.capacity["|"] > 0, on: node)', "milli"),
    ('let x = count(devices where it.attributes["product"] == "|", on: node)', "T4"),
    ('let x = share_after("|")', "memory"),
    ('test "t" {\n  node a { labels: { "nvidia.com/gpu.product": "|" } }\n}', "T4"),
    ('test "t" {\n  node a { labels: { |', '"nvidia.com/gpu.product"'),
    ("filter f {\n  require true else \"{node.labels['|']}\"\n}", "nvidia.com/gpu.product"),
]


def test_labels_of_namespaces_are_no_resources(openb):
    assert offered('filter f { require pod.namespace_labels["|"] == "a" }', openb) == []


def test_nodes_of_a_test_have_no_tolerations(openb):
    assert offered('test "t" {\n  node a { tolerations: ["|"] }\n}', openb) == []


@pytest.mark.parametrize(("text", "wanted"), OF_CLUSTER, ids=[case[0].replace("\n", " ") for case in OF_CLUSTER])
def test_offers_what_the_cluster_has(text, wanted, openb):
    assert wanted in offered(text, openb)
    assert wanted not in offered(text) or wanted in {"memory", "nvidia.com/gpu"}


def test_an_offer_leaves_the_rest_of_a_selector_as_it_is(openb):
    text = 'let x = node.labels matches "a=b, nvidia.com/gpu.product != T"'
    found = next(offer for offer in candidates(Document("x", text), len(text) - 1, openb) if offer.label == "T4")
    assert text[: found.start] + found.written + text[found.end :] == text.replace("!= T", "!= T4")


def test_an_offer_replaces_the_word_that_was_begun():
    text = "let x = node.lab + 1"
    found = next(offer for offer in candidates(Document("x", text), text.index("lab") + 2) if offer.label == "labels")
    assert text[: found.start] + found.written + text[found.end :] == 'let x = node.labels["$1"] + 1'
    assert found.snippet


def test_completion_works_after_thousands_of_open_brackets():
    text = 'policy "p"\ntest "t" { node n { ' + "{" * 3000
    assert offered(f"{text}|") == []
    document = Document("x.policy", text)
    assert [word.start + 1 for word in document.words] == [word.start for word in document.with_text(f"\n{text}").words]


# Patterns that begin anew at each letter would need minutes for these.
LONG = 200_000


@pytest.mark.parametrize(
    ("text", "there"),
    [
        (f'let x = node.name == "{"a" * LONG}" |', "and"),
        (f"let x = {'a' * LONG}- |", "node"),
        (f'filter f {{ require node.labels matches "{"a" * LONG}!,|" }}', "kubernetes.io/hostname"),
        (f'filter f {{ require node.labels matches "{"k in (a," * (LONG // 8)}!|" }}', "kubernetes.io/hostname"),
    ],
)
def test_very_long_words_are_read_once(text, there):
    assert there in offered(text)

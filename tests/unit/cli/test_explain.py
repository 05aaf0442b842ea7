"""`wharf explain pod` queries a running scheduler, or decides on a snapshot."""

import http.server
import json
import threading

import pytest

CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", memory: 4Gi, pods: "10"}}}
- apiVersion: v1
  kind: Pod
  metadata: {name: big, namespace: default}
  spec: {containers: [{name: c, resources: {requests: {cpu: "5"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: fits, namespace: shop}
  spec: {nodeName: n2, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: done, namespace: default}
  spec: {nodeName: n2, containers: [{name: c}]}
  status: {phase: Succeeded}
- apiVersion: v1
  kind: Pod
  metadata: {name: gated, namespace: default}
  spec: {schedulingGates: [{name: example.com/quota}, {name: later}], containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: leaving, namespace: default, deletionTimestamp: "2024-01-01T00:00:00Z"}
  spec: {schedulingGates: [{name: later}], containers: [{name: c}]}
"""
GANG = """
- apiVersion: scheduling.k8s.io/v1alpha2
  kind: PodGroup
  metadata: {name: training, namespace: ml}
  spec:
    schedulingPolicy: {gang: {minCount: MIN}}
    schedulingConstraints: {topology: [{key: kubernetes.io/hostname}]}
"""
MEMBER = """
- apiVersion: v1
  kind: Pod
  metadata: {name: worker-NUMBER, namespace: ml}
  spec: {schedulingGroup: {podGroupName: training}, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return str(path)


@pytest.fixture
def scheduler():
    """A server; (its URL, answers by path)."""
    answers = {}

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, said = answers.get(self.path, (404, f"not here: {self.path}\n"))
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.end_headers()
            self.wfile.write(said.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", answers
        server.shutdown()
        thread.join()


def test_a_pod_of_a_snapshot_is_explained(wharf, cluster):
    code, out, _ = wharf("explain", "pod", "big", "--snapshot", cluster)
    assert code == 0
    assert "0/2 nodes are available" in out
    assert "it would have to request at most 4 of cpu, which is all that the node has" in out


def test_a_bound_pod_of_a_snapshot_says_that_it_was_decided_again(wharf, cluster):
    code, out, _ = wharf("explain", "pod", "shop/fits", "--snapshot", cluster, "--node", "n1", "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert answer["boundTo"] == answer["explanation"]["node"] == "n2"
    assert "as if it waited" in answer["notes"][0]
    assert answer["remedies"][0]["sentences"][0].startswith("it would need ")


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (
            "gated",
            "default/gated is held back: waiting for scheduling gates: [example.com/quota later]; what follows",
        ),
        ("leaving", "default/leaving is being deleted, and will not be placed any more"),
    ],
)
def test_the_reason_why_a_pod_is_held_comes_before_the_supposed_decision(wharf, cluster, pod, says):
    code, out, _ = wharf("explain", "pod", pod, "--snapshot", cluster)
    assert code == 0
    assert out.startswith(says)
    assert f"default/{pod} → n" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("pod", "bigg"), "there is no pod default/bigg; did you mean default/big?"),
        (("pod", "shop/big"), "there is no pod shop/big; did you mean default/big?"),
        (("pod", "done"), "has ended (Succeeded)"),
        (("node", "n1"), "a pod, a group or a policy can be explained"),
        (("group", "ml/trainin"), "no pod is a member of a group ml/trainin"),
        (("group", "ml/training", "--node", "n1"), "--node is about a pod"),
        (("pod", "a/b/c"), "expected NAME or NAMESPACE/NAME"),
        (("pod", "/c"), "expected NAME or NAMESPACE/NAME"),
        (("pod", "big", "--node", "n9"), "there is no node n9"),
    ],
)
def test_an_explanation_that_is_impossible_gives_the_reason(wharf, cluster, words, says):
    code, _, err = wharf("explain", *words, "--snapshot", cluster)
    assert code == 2
    assert says in err


def test_a_running_scheduler_is_asked(wharf, scheduler):
    url, answers = scheduler
    answers["/explain/shop/web?format=text&node=n%2F1"] = 200, "in words\n"
    assert wharf("explain", "pod", "shop/web", "--url", url, "--node", "n/1") == (0, "in words\n", "")


def test_a_refusal_of_the_scheduler_is_printed(wharf, scheduler):
    url, answers = scheduler
    answers["/explain/default/web?format=text"] = 409, "pod default/web is placed by another scheduler\n"
    code, _, err = wharf("explain", "pod", "web", "--url", url)
    assert (code, err) == (2, "wharf: pod default/web is placed by another scheduler\n")


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--policy", "--snapshot FILE or --live"),
        ("--scheduler-name", "--snapshot FILE or --live"),
        ("--kubeconfig", "say which cluster --live is about; a running scheduler is asked at its --url"),
        ("--context", "say which cluster --live is about; a running scheduler is asked at its --url"),
    ],
)
def test_flags_that_do_not_concern_a_running_scheduler_are_refused(wharf, flag, says):
    code, _, err = wharf("explain", "pod", "web", flag, "x")
    assert code == 2
    assert says in err


POLICY = 'policy "roomy"\nfor pods where pod.namespace == "shop"\nfilter big { require node.allocatable.cpu > 3cpu else "too small" }\n'


@pytest.fixture
def policy(tmp_path):
    path = tmp_path / "roomy.policy"
    path.write_text(POLICY)
    return str(path)


def test_a_policy_is_explained_on_a_snapshot(wharf, cluster, policy):
    code, out, _ = wharf("explain", "policy", "roomy", "--snapshot", cluster, "--policy", policy)
    assert code == 0
    assert '  governs 1 of 3 pods, 0 of them waiting, e.g. shop/fits\n    for pods where pod.namespace == "shop"\n' in out
    assert "        1     1  roomy/big, e.g. n1 for shop/fits: too small\n" in out

    code, out, _ = wharf("explain", "policy", "roomy", "--snapshot", cluster, "--policy", policy, "--format", "json")
    assert (code, json.loads(out)["filters"][0]["example"]) == (0, ["shop/fits", "n1"])


def test_a_running_scheduler_is_asked_about_a_policy(wharf, scheduler):
    url, answers = scheduler
    answers["/policies/a%2Fb/explain?format=text"] = (200, "told\n")
    assert wharf("explain", "policy", "a/b", "--url", url) == (0, "told\n", "")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["rommy"], "there is no policy rommy; did you mean roomy?"),
        (["elsewhere"], "there is no policy elsewhere; there is roomy"),
        (["roomy", "--node", "n1"], "--node is about a pod"),
    ],
)
def test_wrong_flags_about_a_policy_are_refused(wharf, cluster, policy, flags, said):
    code, out, err = wharf("explain", "policy", *flags, "--snapshot", cluster, "--policy", policy)
    assert (code, out) == (2, "")
    assert said in err


@pytest.fixture
def gang(tmp_path):
    """A function that returns the file of a cluster whose two nodes have room for 2 and 3 members of a group of that many."""

    def written(min_count, members):
        nodes = CLUSTER.replace("{name: n1}", "{name: n1, labels: {kubernetes.io/hostname: n1}}")
        nodes = nodes.replace("{name: n2}", "{name: n2, labels: {kubernetes.io/hostname: n2}}")
        path = tmp_path / "gang.yaml"
        workers = [MEMBER.replace("NUMBER", str(number)) for number in range(members)]
        path.write_text(nodes + GANG.replace("MIN", str(min_count)).lstrip("\n") + "".join(worker.lstrip("\n") for worker in workers))
        return str(path)

    return written


@pytest.mark.parametrize(
    ("size", "state", "message"),
    [
        ((4, 4), "waits for room", "4 members must be placed at once; kubernetes.io/hostname n2 takes 3"),
        ((3, 3), "has a place", "3 of 3 waiting members would be placed now in kubernetes.io/hostname n2, on 1 node"),
        ((3, 2), "waits for members", "2 of 3 members are there"),
    ],
)
def test_a_group_of_a_snapshot_is_explained(wharf, gang, size, state, message):
    code, out, _ = wharf("explain", "group", "ml/training", "--snapshot", gang(*size), "--format", "json")
    answer = json.loads(out)
    assert (code, answer["state"], answer["message"].partition(". preemption: ")[0]) == (0, state, message)
    assert [member["node"] for member in answer["members"]] == ["n2" if state == "has a place" else None] * size[1]
    assert "all within one kubernetes.io/hostname" in answer["terms"]
    if state == "waits for room":
        assert [(fit["value"], fit["fits"], fit["wanted"], fit["reasons"]) for fit in answer["domains"]] == [
            ("n2", 3, 4, {"Insufficient cpu": 1}),
            ("n1", 2, 4, {"Insufficient cpu": 1}),
        ]
    code, out, _ = wharf("explain", "group", "ml/training", "--snapshot", gang(*size))
    assert out.startswith(f"group ml/training: {state}\n  {message}")


@pytest.mark.parametrize(("min_count", "node"), [(3, "n2"), (4, None)])
def test_a_member_says_what_becomes_of_its_group(wharf, gang, min_count, node):
    code, out, _ = wharf("explain", "pod", "ml/worker-2", "--snapshot", gang(min_count, min_count), "--node", "n1", "--format", "json")
    answer = json.loads(out)
    assert (code, answer["group"], answer["explanation"]["node"]) == (0, "ml/training", node)
    assert answer["notes"][-1].startswith("it is a member of group ml/training")
    assert ("group ml/training: 4 members must be placed" in answer["explanation"]["message"]) == (node is None)


def test_a_running_scheduler_is_asked_about_a_group(wharf, scheduler):
    url, answers = scheduler
    answers["/explain/group/ml/training?format=text"] = (200, "told\n")
    assert wharf("explain", "group", "ml/training", "--url", url) == (0, "told\n", "")


def test_a_snapshot_without_nodes_is_refused(wharf, tmp_path):
    (tmp_path / "pods.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n")
    code, out, err = wharf("explain", "pod", "web", "--snapshot", tmp_path / "pods.yaml")
    assert (code, out) == (2, "")
    assert "the snapshot has no node" in err

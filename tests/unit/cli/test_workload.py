"""`wharf workload`: what pods typically ask for, written as a library that policies import."""

import json

import pytest

from wharfinger.cli import main

NODE = {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}}}
MODELS = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["V100", "A100"]}
POLICY = """import "typical.policy" as shared

policy "fgd"

score fgd = floor(100 * sigmoid((fragmentation(shared.typical) - fragmentation_after(shared.typical)) / 1000)) on missing 0

test "the node whose GPUs typical pods can use less" {
  node a { resources: { "nvidia.com/gpu": 1 } }
  node b { resources: { "nvidia.com/gpu": 4 } }
  pod p { requests: { cpu: 1, "nvidia.com/gpu": 1 } }
  place p
  expect p on a, b
}
"""


def pod(number, cpu, models=False, **more):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": f"{number + 1}Gi", **more}}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [MODELS]}]}}
    affinity = {"affinity": {"nodeAffinity": terms}} if models else {}
    return {"kind": "Pod", "metadata": {"name": f"p{number}", "namespace": "default"}, "spec": {"containers": [container], **affinity}}


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """A file with ten pods of four kinds."""
    monkeypatch.chdir(tmp_path)
    pods = [pod(n, "4") for n in range(5)]
    pods += [pod(5 + n, "500m", **{"nvidia.com/gpu": "1", "alibabacloud.com/gpu-milli": "250"}) for n in range(2)]
    pods += [pod(7 + n, "8", models=True, **{"nvidia.com/gpu": "2"}) for n in range(2)]
    pods += [pod(9, "1")]
    items = [{"apiVersion": "v1", **item} for item in (NODE, *pods)]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return tmp_path


def test_the_most_common_requests_are_typical(wharf, snapshot):
    code, out, err = wharf("workload", "-s", "cluster.json", "--share", "90%")
    assert (code, err) == (0, "")
    assert out == (
        "# 10 pods of cluster.json; 3 of 4 different requests are 90% of them\n"
        "workload typical = [\n"
        "  { cpu: 4cpu, weight: 50% },\n"
        "  { cpu: 500m, gpu: 1, milli: 250, weight: 20% },\n"
        '  { cpu: 8cpu, gpu: 2, model: ["A100", "V100"], weight: 20% },\n'
        "]\n"
    )


def test_a_policy_imports_what_was_written(wharf, snapshot):
    (snapshot / "typical.policy").write_text(wharf("workload", "--snapshot", "cluster.json")[1])
    (snapshot / "fgd.policy").write_text(POLICY)
    assert main(["check", "."]) == 0
    assert main(["fmt", "--check", "typical.policy"]) == 0
    assert main(["test", "fgd.policy"]) == 0


def test_memory_distinguishes_pods(wharf, snapshot):
    code, out, _ = wharf("workload", "--snapshot", "cluster.json", "--memory", "--name", "other", "--share", "1")
    assert code == 0
    assert out.count("memory: ") == 10
    assert "workload other = [" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--share", "0%"], "--share 0%: not a share; write one above 0% and up to 100%"),
        (["--share", "8_0%"], "--share 8_0%: not a share"),
        (["--share", "many"], "--share many: not a share"),
        (["--share", "120%"], "--share 120%: not a share"),
        (["--name", "filter"], "--name filter: not a name"),
        (["--name", "a-b"], "--name a-b: not a name"),
    ],
)
def test_wrong_flags_are_reported(wharf, snapshot, flags, said):
    code, out, err = wharf("workload", "--snapshot", "cluster.json", *flags)
    assert (code, out) == (2, "")
    assert said in err


def test_a_cluster_without_pods_has_no_typical_ones(wharf, snapshot):
    (snapshot / "empty.json").write_text(json.dumps({"apiVersion": "v1", **NODE}))
    code, _, err = wharf("workload", "--snapshot", "empty.json")
    assert code == 2
    assert "empty.json: no pods, so nothing is typical of them" in err

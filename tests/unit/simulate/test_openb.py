"""The nodes and pods of the OpenB trace are those of its paper."""

import csv
import gzip
from collections import Counter
from importlib import resources

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.simulate import openb


def allocatable(node):
    return node["status"]["allocatable"]


def requests(pod):
    return pod["spec"]["containers"][0]["resources"]["requests"]


def test_nodes_are_those_of_the_paper():
    nodes = openb.node_manifests()
    with_gpus = [node for node in nodes if openb.GPU in allocatable(node)]
    assert len(nodes) == 1523
    assert len(with_gpus) == 1213
    assert sum(int(allocatable(node)[openb.GPU]) for node in with_gpus) == 6212
    assert sum(int(allocatable(node)["cpu"].removesuffix("m")) for node in nodes) == 125_514_000
    assert sum(int(allocatable(node)["memory"].removesuffix("Mi")) for node in with_gpus) == 503_828_480


def test_gpu_models_are_node_labels():
    shapes = Counter(
        (node["metadata"]["labels"][openb.GPU_PRODUCT], allocatable(node)[openb.GPU])
        for node in openb.node_manifests()
        if openb.GPU in allocatable(node)
    )
    assert shapes["G2", "8"] == 549
    assert shapes["T4", "2"] == 387
    assert shapes["A10", "1"] == 2


def test_no_node_sells_a_gpu_twice():
    for node in openb.node_manifests():
        amounts = allocatable(node)
        assert int(amounts.get(openb.GPU_MILLI, 0)) == 1000 * int(amounts.get(openb.GPU, 0))


def test_every_gpu_pod_draws_from_the_common_pool():
    kinds = Counter()
    milli = 0
    for pod in openb.pod_manifests():
        asked = requests(pod)
        if openb.GPU_MILLI not in asked:
            kinds["none"] += 1
            assert openb.GPU not in asked
            continue
        milli += int(asked[openb.GPU_MILLI])
        kinds["whole" if openb.GPU in asked else "share"] += 1
        if openb.GPU in asked:
            assert int(asked[openb.GPU_MILLI]) == 1000 * int(asked[openb.GPU])
        else:
            assert int(asked[openb.GPU_MILLI]) < 1000
    assert kinds == {"none": 1088, "share": 3078, "whole": 3911 + 16 + 15 + 44}
    assert round(milli / 1000, 1) == 6086.8


def test_default_pods_have_no_constraints_and_gpuspec_pods_name_models():
    plain, constrained = openb.pod_manifests(openb.Variant.DEFAULT), openb.pod_manifests(openb.Variant.GPUSPEC33)
    assert not any("affinity" in pod["spec"] for pod in plain)
    assert sum("affinity" in pod["spec"] for pod in constrained) == 2388
    assert [requests(pod) for pod in plain] == [requests(pod) for pod in constrained]
    [pod] = [pod for pod in constrained if pod["metadata"]["name"] == "openb-pod-0009"]
    [term] = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": openb.GPU_PRODUCT, "operator": "In", "values": ["V100M16", "V100M32"]}]


def test_pods_keep_their_order_of_creation():
    created = [pod["metadata"]["creationTimestamp"] for pod in openb.pod_manifests()]
    assert len(set(created)) > 5000
    assert created[0] == "2023-01-01T00:00:00Z"
    assert created == sorted(created)


def test_csv_files_of_the_trace_are_read_as_the_shipped_rows_are():
    packed = gzip.decompress(resources.files("wharfinger.simulate.openb").joinpath("pods.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(packed.splitlines()))
    lines = [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        *(f"openb-pod-{i:04d}," + ",".join(row.values()) for i, row in enumerate(rows)),
    ]
    assert openb.manifests_from_csv("pods.csv", "\n".join(lines)) == openb.pod_manifests(openb.Variant.GPUSPEC33)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "nodes.csv: a CSV file is read as an OpenB node or pod list, and its header is neither"),
        ("", "nodes.csv: a CSV file is read as an OpenB node or pod list, and its header is neither"),
        (
            "sn,cpu_milli,memory_mib,gpu,model\nn,many,1,0,\n",
            "nodes.csv: line 2: cpu_milli is 'many', not a whole number of at most 11 digits",
        ),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1\n", "nodes.csv: line 2: memory_mib is None, not a whole number of at most 11 digits"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,1,²,\n", "nodes.csv: line 2: gpu is '²', not a whole number of at most 11 digits"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time\np,1,1,0,0,,LS,999999999999\n",
            "nodes.csv: line 2: creation_time is '999999999999', not a whole number of at most 11 digits",
        ),
        (
            f"sn,cpu_milli,memory_mib,gpu,model\nn,1,1,1,{'x' * 200_000}\n",
            "nodes.csv: line 2: not CSV: field larger than field limit (131072)",
        ),
    ],
)
def test_other_csv_files_are_refused_by_name_and_line(text, sentence):
    with pytest.raises(InvalidObject) as refused:
        openb.manifests_from_csv("nodes.csv", text)
    assert str(refused.value) == sentence

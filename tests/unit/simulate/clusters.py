"""Small generated clusters for the tests of this folder."""

import msgspec
from msgspec.structs import replace

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.framework.chain import assemble
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.semantics.authority import CLUSTER
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.simulate import workloads

POLICY = """
policy "mix"

let here = count(pods where (it.labels["app"] ?? "") == (pod.labels["app"] ?? "-"), on: node)

filter few { require here < 2 else "runs {here} of them" }
filter no_spot { reject (node.labels["lifecycle"] ?? "-") == "spot" else "a spot node" }
score roomy weight 2 = least_allocated()
score apart weight 3 = -here normalize minmax
prefer fast weight 1 = (node.labels["disktype"] ?? "-") == "nvme"
"""


def state_of(n_nodes, running=0):
    state = ClusterState()
    for node in msgspec.convert(workloads.node_manifests(n_nodes), list[objects.Node]):
        state.add_node(node)
    for pod in msgspec.convert(list(workloads.running_manifests(running, n_nodes)), list[objects.Pod]):
        state.add_pod(pod)
    return state


def pods_of(n_pods, n_templates=1):
    return [PodView(pod) for pod in msgspec.convert(workloads.pod_manifests(n_pods, n_templates), list[objects.Pod])]


def policy(text=POLICY, authority=CLUSTER, **params):
    diagnostics = Diagnostics()
    found = load_source(Source(name="mix.policy", text=text), CATALOGUE, diagnostics)
    assert not diagnostics.has_errors, list(diagnostics)
    return compile_policy(replace(found, authority=authority), params)


def chain_of(text=POLICY, **params):
    return assemble([policy(text, **params)])

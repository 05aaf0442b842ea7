"""Ratios that must hold on any machine: both sides are measured in one run, in sequence."""

import time
from pathlib import Path

import msgspec
import numpy as np

import wharfinger
from wharfinger.compiler.bound import BoundPolicy
from wharfinger.compiler.interpreter import Interpreter
from wharfinger.framework.chain import assemble
from wharfinger.framework.evaluation.cycle import Decider, decide
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate import workloads

(TEN_TERMS,) = wharfinger.load_policies(Path(__file__).with_name("ten_terms.policy"))
ALL = slice(None)


def seconds(run, repeats=5):
    """The least CPU time of some runs."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


def test_kernels_are_a_hundred_times_as_fast_as_the_interpreter():
    work = workloads.workload("basic", workloads.Size(nodes=5_000, pods=1, running=5_000))
    snapshot, pod = work.state.snapshot(), work.pods[0]

    def interpreted():
        slow = Interpreter(TEN_TERMS.policy, TEN_TERMS.params, pod, snapshot)
        for row in range(0, snapshot.n_nodes, 10):
            for rule in TEN_TERMS.policy.filters:
                slow.filter(rule, row)
            for rule in TEN_TERMS.policy.scores:
                slow.score(rule, row)

    def compiled():
        fast = BoundPolicy(TEN_TERMS, pod, snapshot)
        for i in range(len(TEN_TERMS.filters)):
            fast.filter_bits(i, snapshot, ALL)
        for i in range(len(TEN_TERMS.scores)):
            fast.score(i, snapshot, ALL)

    compiled()
    assert 10 * seconds(interpreted, repeats=1) / seconds(compiled) > 100


def test_a_remembered_template_is_decided_faster_than_a_new_one():
    work = workloads.workload("basic", workloads.Size(nodes=5_000, pods=200, running=5_000))
    chain = assemble((TEN_TERMS,))
    decider = Decider(chain)
    decider.decide(work.state.snapshot(), work.pods[0])

    def remembered():
        for pod in work.pods[:100]:
            work.state.assume(pod, decider.decide(work.state.snapshot(), pod).node)
        for pod in work.pods[:100]:
            work.state.forget(pod)

    fresh = seconds(lambda: decide(chain, work.state.snapshot(), work.pods[0]))
    assert fresh / (seconds(remembered) / 100) > 1.5


def test_assuming_a_pod_costs_the_same_at_any_cluster_size():
    def cost(n_nodes):
        state = workloads.workload("basic", workloads.Size(nodes=n_nodes, pods=1, running=0)).state
        pods = [PodView(pod) for pod in msgspec.convert(workloads.pod_manifests(500), list[objects.Pod])]
        names = [state.snapshot().names[row] for row in np.linspace(0, n_nodes - 1, len(pods)).astype(int)]

        def run():
            for pod, name in zip(pods, names, strict=True):
                state.assume(pod, name)
            for pod in pods:
                state.forget(pod)

        return seconds(run)

    assert cost(20_000) / cost(1_000) < 4

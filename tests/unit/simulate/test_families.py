"""The workloads of `wharf bench --family`: the requests of each match its name."""

import pytest

from wharfinger.cli.commands.observe import bench
from wharfinger.framework.chain import assemble
from wharfinger.simulate import workloads

SIZE = workloads.Size(nodes=30, pods=20, running=40)


@pytest.mark.parametrize("family", workloads.FAMILIES)
def test_every_family_is_measured_and_only_the_unschedulable_stay_pending(family):
    found = bench.measure(assemble(), workloads.workload(family, SIZE))
    assert (found.nodes, found.pods) == (30, 20)
    assert found.placed == (0 if family == "unschedulable" else 20)


def test_churn_keeps_the_number_of_pods():
    work = workloads.workload("churn", SIZE)
    bench.measure(assemble(), work)
    assert work.state.snapshot().pod_count.sum() == SIZE.running


def test_preemption_evicts_one_pod_for_each_placed():
    work = workloads.workload("preemption", SIZE)
    bench.measure(assemble(), work)
    assert work.state.snapshot().pod_count.sum() == 2 * SIZE.nodes

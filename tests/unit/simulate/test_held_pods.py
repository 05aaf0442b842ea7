"""A dry run says which of the placed pods a permit would not let be bound."""

import pytest

from tests.unit.framework import fleet
from wharfinger.framework.chain import assemble
from wharfinger.simulate.dry_run import dry_run
from wharfinger.simulate.placing import Mode

TOGETHER = """
policy "together"
permit complete timeout 5min { require count(pods where it.labels["app"] == pod.labels["app"]) >= 3 else "some are missing" }
permit ready { require node.labels["warm"] == "yes" else "{node.name} is cold" on missing pass }
"""


def run(*pods, mode=Mode.SEQUENTIAL, warm="yes"):
    state = fleet.state(fleet.node("a", labels={"warm": warm}))
    return dry_run(assemble([fleet.policy(TOGETHER)]), state, [fleet.pod(name, labels={"app": app}) for name, app in pods], mode=mode)


def held(done):
    return {result.pod.removeprefix("default/"): list(result.held) for result in done.results}


def test_pods_whose_permits_all_agree_in_the_end_are_not_held():
    done = run(("p", "web"), ("q", "web"), ("r", "web"))
    assert (held(done), done.held) == ({"p": [], "q": [], "r": []}, 0)


def test_pods_for_which_others_are_missing_are_held():
    done = run(("p", "web"), ("q", "web"), ("r", "web"), ("alone", "db"))
    assert (held(done)["alone"], held(done)["p"], done.held) == (["together/complete: some are missing"], [], 1)


def test_every_permit_that_refuses_is_named_with_its_message():
    done = run(("p", "web"), warm="no")
    assert held(done) == {"p": ["together/complete: some are missing", "together/ready: a is cold"]}


@pytest.mark.parametrize("mode", [Mode.INDEPENDENT])
def test_nothing_is_held_where_nothing_is_placed(mode):
    assert run(("p", "web"), mode=mode).held == 0

"""The answers about policies to users of a namespace: nothing of those of other namespaces, and no text of the cluster's."""

from types import SimpleNamespace

import pytest

from tests.in_memory import ManualClock
from tests.unit.simulate.clusters import policy
from wharfinger.framework.chain import assemble
from wharfinger.language.semantics.authority import CLUSTER, Authority, TenantPolicies, TenantRights
from wharfinger.model import objects
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.operator.policy_checks import PolicyChecks

TEXT = 'policy "{}" for pods where (pod.labels["secret"] ?? "") == "{}"\nscore s = 1\n'
POLICIES = {"cluster": CLUSTER, "team-a.own": Authority("team-a"), "team-b.theirs": Authority("team-b")}
POD = objects.Pod(metadata=objects.ObjectMeta(name="p", namespace="team-a", labels={}))
NO_SUCH = (False, "UnknownPolicy", 'there is no active policy "{}"')
HIDDEN = (False, "PolicyGovernsOthers", 'policy "{0}" does not govern these pods')
IS_FOR = 'it is for pods where (pod.labels["secret"] ?? "") == "{0}"'
SHOWN = (*HIDDEN[:2], f"{HIDDEN[2]}: {IS_FOR}")


def checks(rights):
    made = [policy(TEXT.format(name, name), authority) for name, authority in POLICIES.items()]
    scheduler = SimpleNamespace(profiles=[SimpleNamespace(name="default-scheduler", chain=assemble(made))], state=ClusterState())
    return PolicyChecks(scheduler, ManualClock(), rights)


@pytest.mark.parametrize(
    ("name", "restricted", "trusted"),
    [
        ("cluster", HIDDEN, SHOWN),
        ("team-a.own", SHOWN, SHOWN),
        ("team-b.theirs", NO_SUCH, NO_SUCH),
        ("none", NO_SUCH, NO_SUCH),
    ],
)
def test_a_policy_governs_pods_of_its_scope(name, restricted, trusted):
    named = objects.Pod(metadata=POD.metadata, spec=objects.PodSpec(scheduler_name="default-scheduler"))
    for rights, expected in ((TenantRights(), restricted), (TenantRights(TenantPolicies.TRUSTED), trusted)):
        assert checks(rights).governs(name, named) == (*expected[:2], expected[2].format(name))

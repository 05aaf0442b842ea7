"""The waiting pods and groups that are tried again after a change of policies, and the work of finding them."""

from types import SimpleNamespace

import pytest

from tests.unit.scheduler.running import pod
from tests.unit.simulate.clusters import policy
from wharfinger.language.semantics.authority import CLUSTER, Authority
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects
from wharfinger.scheduler.queued_pods import Place, QueuedGroup, QueuedPod
from wharfinger.scheduler.scheduler import MAX_MEMBERS_ASKED, AffectedByPolicies

PROFILE = SimpleNamespace(sort_key=lambda _pod: 0)
TEXT = 'policy "p" for pods where pod.name == "member-3"\nfilter f { require node.pod_count < 9 else "full" }\n'


def queued(name):
    return QueuedPod(pod=PodView(pod(name)), profile=PROFILE, sort_key=0, first_seen=0.0, waits_since=0.0, queued_at=0.0, place=Place.GONE)


def group(n):
    members = {f"member-{number}": queued(f"member-{number}") for number in range(n)}
    first = members["member-0"]
    found = QueuedGroup(
        key="default/g",
        pod=first.pod,
        profile=PROFILE,
        sort_key=0,
        first_seen=0.0,
        waits_since=0.0,
        queued_at=0.0,
        place=Place.UNSCHEDULABLE,
    )
    found.members.update(members)
    return found


@pytest.mark.parametrize(
    ("authority", "n", "concerned"),
    [
        (CLUSTER, 3, False),
        (CLUSTER, 4, True),
        (Authority("default"), 4, True),
        (Authority("shop"), 4, False),
        (Authority("shop"), MAX_MEMBERS_ASKED + 1, False),
        (Authority("default"), MAX_MEMBERS_ASKED + 1, True),
    ],
)
def test_a_group_is_concerned_where_a_member_is(authority, n, concerned):
    test = AffectedByPolicies(Changed([policy(TEXT, authority)]), TimeAndObjects(0.0, ObjectStore()))
    assert test(group(n)) is concerned


class Changed:
    """The changed policies of every profile."""

    def __init__(self, policies):
        self.policies = policies

    def get(self, _profile, _default):
        return self.policies


def test_members_of_a_large_group_are_not_asked_one_by_one():
    asked = []
    changed = policy(TEXT)
    usual = changed.governs
    changed.governs = lambda view, at: asked.append(view) or usual(view, at)
    assert AffectedByPolicies(Changed([changed]), TimeAndObjects(0.0, ObjectStore()))(group(10 * MAX_MEMBERS_ASKED))
    assert asked == []


def test_members_are_not_asked_one_by_one_about_many_policies():
    asked = []
    changed = [policy(TEXT, Authority("default")) for _ in range(MAX_MEMBERS_ASKED)]
    for each in changed:
        each.governs = lambda view, _at: asked.append(view)
    test = AffectedByPolicies(Changed(changed), TimeAndObjects(0.0, ObjectStore()))
    assert test(group(2))
    assert (asked, test.n_evaluated) == ([], 0)


def test_the_evaluated_scopes_are_counted():
    test = AffectedByPolicies(Changed([policy(TEXT), policy(TEXT, Authority("shop"))]), TimeAndObjects(0.0, ObjectStore()))
    assert not test(queued("a"))
    assert test.n_evaluated == 1

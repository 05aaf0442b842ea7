"""The pods that policies govern are counted once for all policies, with pauses."""

import pytest
from msgspec import structs

from tests.in_memory import ManualClock
from tests.unit.scheduler.running import pod
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.language.load import TextSet
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.semantics.authority import Authority
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.object_store import ObjectStore, TimeAndObjects
from wharfinger.operator.scheduling_policy import PAUSE_RATIO, PodCounts, governed
from wharfinger.steps import at_once


class Pods:
    def __init__(self, *views):
        self.known_pods = list(views)
        self.pods_revision = 0

    def add(self, view):
        self.known_pods.append(view)
        self.pods_revision += 1


def view(name, namespace="shop", **labels):
    made = pod(name, labels=labels)
    return PodView(structs.replace(made, metadata=structs.replace(made.metadata, namespace=namespace)))


PODS = (
    *(view(f"a{number}", tier="front") for number in range(3)),
    *(view(f"b{number}", tier="back") for number in range(5)),
    *(view(f"c{number}", "bank", tier="back") for number in range(9)),
)
CASES = [
    ('policy "p"', None, 17, "c0"),
    ('policy "p" for pods where pod.labels["tier"] == "back"', None, 14, "c0"),
    ('policy "p" for pods where pod.labels["tier"] == "back"', "shop", 5, "b0"),
    ('policy "p" for pods where ends_with(pod.name, "2")', "shop", 2, "a2"),
    ('policy "p" for pods where pod.labels["tier"] == "none"', None, 0, None),
]


@pytest.mark.parametrize(("text", "namespace", "count", "typical"), CASES)
def test_the_counted_pods_of_a_policy(text, namespace, count, typical):
    policy = compile_policy(TextSet(texts={"p": text.encode()}).check("p", CATALOGUE, Diagnostics(), Authority(namespace)).policy)
    counts = at_once(PodCounts(Pods(*PODS), ManualClock()).counts_in_steps())

    number, example = at_once(governed(policy, counts, TimeAndObjects(0.0, ObjectStore())))

    assert (number, example and example.name) == (count, typical)


def test_pods_that_change_are_counted_again_after_a_pause_in_proportion():
    class Slow(ManualClock):
        def monotonic(self):
            self.move(0.5)
            return super().monotonic()

    pods, clock = Pods(*PODS), Slow()
    counts = PodCounts(pods, clock)

    def size():
        return sum(len(found) for templates in at_once(counts.counts_in_steps()).values() for found in templates.values())

    assert (size(), counts.revision) == (17, 0)
    pods.add(view("new"))
    assert (size(), counts.revision) == (17, 0), "it rests"
    clock.move(PAUSE_RATIO)
    assert (size(), counts.revision) == (18, 1)

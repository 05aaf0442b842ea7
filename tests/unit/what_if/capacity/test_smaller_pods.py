"""Less of a resource comes from the containers, and exactly that amount."""

import msgspec
import pytest

from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.what_if.further_pods import reductions, with_less

GI = 2**30


def pod(**spec):
    return PodView(msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, objects.Pod))


def asking(cpu, **more):
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("resource", "wanted", "amounts"),
    [
        ("cpu", 800, (200,)),
        ("cpu", 500, (100, 200)),
        ("cpu", 4000, (1000, 2000)),
        ("cpu", 2, (1,)),
        ("cpu", 1, ()),
        ("memory", 10 * GI, (2 * GI, 4 * GI)),
        ("nvidia.com/gpu", 8, (2,)),
        ("nvidia.com/gpu", 1, ()),
    ],
)
def test_reductions_are_amounts_that_people_choose(resource, wanted, amounts):
    assert reductions(resource, wanted) == amounts


@pytest.mark.parametrize(
    ("spec", "amount"),
    [
        ({"containers": [asking("500m")]}, 100),
        ({"containers": [asking("500m"), asking("2")]}, 2200),
        ({"containers": [asking("500m")], "initContainers": [asking("500m")]}, 100),
        ({"containers": [asking("500m")], "initContainers": [asking("2")]}, 1600),
        ({"containers": [asking("500m")], "resources": {"requests": {"cpu": "3"}}}, 1000),
        ({"containers": [asking("500m")], "overhead": {"cpu": "1"}}, 500),
    ],
)
def test_exactly_the_amount_is_taken(spec, amount):
    whole = pod(**spec)
    smaller = with_less(whole, "cpu", amount)
    assert smaller.requests.get("cpu", 0) == whole.requests["cpu"] - amount
    assert smaller.key == whole.key


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [asking("500m")], "overhead": {"cpu": "1"}},
        {"containers": [asking("100m")], "initContainers": [asking("900m", restartPolicy="Always")]},
    ],
)
def test_none_where_the_containers_do_not_ask_for_so_much(spec):
    assert with_less(pod(**spec), "cpu", 600) is None

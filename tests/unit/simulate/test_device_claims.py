"""A dry run gives no device twice: to existing claims, claims made from templates, and those for extended resources."""

import pytest
from msgspec import structs

from tests.bench import devices
from wharfinger.framework.chain import assemble
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.simulate.device_claims import missing_templates
from wharfinger.simulate.dry_run import dry_run


def of_template(name):
    pod = devices.pending(name, claims=True).object
    return PodView(structs.replace(pod, status=objects.PodStatus()))


def of_resource(name):
    pod = devices.pending(name, claims=False).object
    resources = objects.ContainerResources(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    return PodView(structs.replace(pod, spec=objects.PodSpec(containers=(objects.Container(name="c", resources=resources),))))


@pytest.mark.parametrize("kind", ["claims", "templates", "resources"])
def test_each_device_is_given_once(kind):
    state = devices.cluster(2)
    names = [f"p{number}" for number in range(2 * devices.DEVICES + 1)]
    if kind == "templates":
        spec = objects.ResourceClaimTemplateSpec(spec=devices.claim("p", 1).spec)
        state.put(objects.ResourceClaimTemplate(metadata=objects.ObjectMeta(name="gpu", namespace="default"), spec=spec))
    if kind == "claims":
        for name in names:
            state.put(devices.claim(name, 1))
    made = {"claims": lambda name: devices.pending(name, claims=True), "templates": of_template, "resources": of_resource}[kind]
    found = dry_run(assemble(), state, [made(name) for name in names])
    assert [pod.node is None for pod in found.results] == [False] * (len(names) - 1) + [True]
    assert "2 cannot allocate all claims" in found.results[-1].message
    allocations = [claim.status.allocation for claim in state.objects.all(objects.ResourceClaim) if claim.status.allocation]
    given = [(result.pool, result.device) for allocation in allocations for result in allocation.devices.results]
    assert len(given) == len(set(given)) == 2 * devices.DEVICES


def test_a_pod_whose_template_is_not_known_waits_for_its_claim():
    found = dry_run(assemble(), devices.cluster(1), [of_template("p")])
    assert 'pod "default/p": ResourceClaim not created yet' in found.results[0].message


def test_a_template_that_is_not_there_is_named_once():
    state = devices.cluster(1)
    (sentence,) = missing_templates(state, [of_template("p"), of_template("q")])
    assert sentence.startswith("pod default/p: there is no ResourceClaimTemplate default/gpu ")
    state.put(objects.ResourceClaimTemplate(metadata=objects.ObjectMeta(name="gpu", namespace="default")))
    assert missing_templates(state, [of_template("p")]) == []

"""Objects are decoded as by Kubernetes: null, bounds, unknown fields and errors."""

import copy

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.reading import decode


def node(text):
    return decode.decode_json(text.encode(), objects.Node)


def test_null_is_the_zero_value_wherever_kubernetes_takes_it_so():
    read = node('{"metadata": {"name": "n", "creationTimestamp": null, "labels": null}, "spec": {"taints": null}, "status": null}')
    assert read == objects.Node(metadata=objects.ObjectMeta(name="n"))


def test_null_in_a_map_is_an_entry_of_zero_value():
    read = node('{"metadata": {"name": "n", "labels": {"a": null, "b": "x"}}, "status": {"capacity": {"cpu": null}}}')
    assert read.metadata.labels == {"a": "", "b": "x"}
    assert read.status.capacity == {"cpu": "0"}


def test_quantities_may_be_bare_numbers():
    read = node('{"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4, "memory": 1e3, "pods": "110", "example.com/x": 0.5}}}')
    assert read.status.capacity == {"cpu": "4", "memory": "1000.0", "pods": "110", "example.com/x": "0.5"}


def test_null_stays_none_where_it_means_something():
    pod = decode.decode_json(b'{"spec": {"topologySpreadConstraints": [{"labelSelector": null}, {"labelSelector": {}}]}}', objects.Pod)
    first, second = pod.spec.topology_spread_constraints
    assert first.label_selector is None
    assert second.label_selector == objects.LabelSelector()


def test_unknown_fields_are_skipped():
    assert node('{"metadata": {"name": "n", "managedFields": [{"x": 1}]}, "future": [1, 2]}').metadata.name == "n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"metadata": {"name": 1}}', "metadata.name: expected text, got a whole number"),
        ('{"spec": {"taints": {"key": "a"}}}', "spec.taints: expected a list, got an object"),
        ('{"spec": {"taints": [{"key": "a"}, 7]}}', "spec.taints[1]: expected an object, got a whole number"),
        ('{"spec": {"taints": [null]}}', "spec.taints[0]: expected an object, got null"),
        ('{"metadata": {"labels": {"v": 1}}}', "metadata.labels['v']: expected text, got a number 1; put it in quotes"),
        ('{"metadata": {"labels": {"v": []}}}', "metadata.labels['v']: expected text, got a list"),
        ('{"metadata": {"creationTimestamp": "yesterday"}}', "metadata.creationTimestamp: invalid RFC3339 encoded datetime"),
        (
            '{"metadata": {"creationTimestamp": "2026-01-01T00:00:00"}}',
            "metadata.creationTimestamp: expected a time with a timezone component",
        ),
        ('{"status": {"capacity": {"cpu": "four"}}}', "status.capacity['cpu']: 'four' is not a quantity"),
        ('{"status": {"capacity": {"cpu": true}}}', "status.capacity['cpu']: expected a quantity, got a truth value"),
        ('{"status": {"images": [{"sizeBytes": 1e400}]}}', "not JSON: Number out of range"),
        ('{"status": {"images": [{"sizeBytes": 9223372036854775808}]}}', "status.images[0].sizeBytes: expected a whole number <="),
        ("[]", "expected an object, got a list"),
        ("{", "not JSON: it ends too early"),
        ('{"a": tru}', "not JSON: "),
        ("{" * 100000, "not JSON"),
    ],
)
def test_unreadable_values_are_named_by_field(text, message):
    with pytest.raises(InvalidObject) as caught:
        node(text)
    assert message in str(caught.value)


def test_integers_are_bounded_as_in_kubernetes():
    with pytest.raises(InvalidObject, match=r"spec.priority: expected a whole number <= 2147483647"):
        decode.decode_json(b'{"spec": {"priority": 4294967296}}', objects.Pod)


def test_keys_of_yaml_maps_become_text_as_in_json():
    read = decode.convert({"metadata": {"name": "n", "labels": {7: "a", True: "b"}}}, objects.Node)
    assert read.metadata.labels == {"7": "a", "true": "b"}


def test_not_utf8_is_reported():
    with pytest.raises(InvalidObject, match="not UTF-8 text"):
        decode.decode_json(b'{"metadata": {"name": "\xff\xfe"}}', objects.Node)


def test_every_kind_decodes_from_nothing():
    for (group, kind), struct in objects.KINDS.items():
        empty = decode.decode_json(b"{}", struct)
        assert objects.written_kind(empty) == kind, group


@pytest.mark.parametrize("text", ["-1", "-0.5Gi", "-1e-9"])
def test_amounts_of_resources_are_not_negative(text):
    with pytest.raises(InvalidObject, match=r"status\.allocatable\['cpu'\]: '-.*' is negative"):
        node(f'{{"status": {{"allocatable": {{"cpu": "{text}"}}}}}}')


def test_minus_zero_is_zero():
    assert node('{"status": {"allocatable": {"cpu": "-0.0"}}}').status.allocatable == {"cpu": "-0.0"}


def test_everything_that_cannot_be_read_is_reported_at_once():
    text = (
        b'{"metadata": {"name": 1, "labels": {"v": 1, "w": 2}},'
        b' "spec": {"nodeName": 3, "priority": "high", "tolerations": [{"key": 4}, 7, {"operator": []}],'
        b' "containers": [{"name": "a", "resources": {"requests": {"cpu": "-1", "memory": "lots"}}}]}}'
    )
    with pytest.raises(InvalidObject) as caught:
        decode.decode_json(text, objects.Pod)
    assert sorted(line.partition(": ")[0] for line in str(caught.value).splitlines()) == [
        "metadata.labels['v']",
        "metadata.labels['w']",
        "metadata.name",
        "spec.containers[0].resources.requests['cpu']",
        "spec.containers[0].resources.requests['memory']",
        "spec.nodeName",
        "spec.priority",
        "spec.tolerations[0].key",
        "spec.tolerations[1]",
        "spec.tolerations[2].operator",
    ]


def test_some_of_very_many_unreadable_fields_are_named():
    with pytest.raises(InvalidObject) as caught:
        decode.convert({"metadata": {"labels": {str(number): number for number in range(1000)}}}, objects.Pod)
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (decode.MAX_NAMED + 1, "950 more fields cannot be read")


@pytest.mark.parametrize("broken", [{"metadata": {"labels": {"a": {}}}}, {"spec": {"tolerations": [None, 1, "x"], "containers": "a"}}])
def test_the_value_that_was_read_stays_as_it_is(broken):
    before = copy.deepcopy(broken)
    with pytest.raises(InvalidObject):
        decode.convert(broken, objects.Pod)
    assert broken == before


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        (objects.ResourceSlice, '{"spec": {"pool": {"generation": -1}}}', "spec.pool.generation"),
        (objects.ResourceSlice, '{"spec": {"pool": {"resourceSliceCount": -1}}}', "spec.pool.resourceSliceCount"),
        (
            objects.ResourceClaim,
            '{"spec": {"devices": {"requests": [{"exactly": {"count": -2}}]}}}',
            "spec.devices.requests[0].exactly.count",
        ),
    ],
)
def test_numbers_of_devices_are_not_negative(kind, text, place):
    with pytest.raises(InvalidObject) as refused:
        decode.decode_json(text.encode(), kind)
    assert f"{place}: expected a whole number >= 0" in str(refused.value)


@pytest.mark.parametrize("levels", [1, 900, 10_000])
@pytest.mark.parametrize("closing", ["[]", "{}"])
def test_too_deeply_nested_values_are_null_and_all_others_are_read(levels, closing):
    """Brackets in texts are no levels, and what follows the deep value is read."""
    first, last = ("[", "]") if closing == "[]" else ('{"k": ', "}")
    deep = first * levels + '"[{\\"[\\\\"' + last * levels
    name = '"n]}\\"[{[{"'
    text = f'{{"metadata": {{"labels": {{"a[": {name}}}, "x": [{deep}, {deep}], "name": {name}}}, "spec": {{"unschedulable": true}}}}'
    read = node(text)
    assert (read.metadata.name, read.metadata.labels, read.spec.unschedulable) == ('n]}"[{[{', {"a[": 'n]}"[{[{'}, True)


@pytest.mark.parametrize("text", ["[" * 10_000, "[" * 10_000 + "}" * 10_000, '{"a": ' * 10_000 + '"' + "}" * 10_000])
def test_too_deeply_nested_text_that_is_no_json_is_refused(text):
    with pytest.raises(InvalidObject, match="not JSON"):
        node(text)

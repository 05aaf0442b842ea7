"""Strings, object store, limits: the parts that have no rows."""

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.columns import arrays, node_table
from wharfinger.model.columns.arrays import Rows
from wharfinger.model.objects import requests
from wharfinger.model.state.object_store import ObjectStore


def test_a_code_is_kept_and_absent_is_not_empty():
    table = arrays.StringTable()
    assert [table.code(text) for text in ("a", "", "a", None)] == [0, 1, 0, arrays.ABSENT]
    assert [table.text(code) for code in (0, 1, arrays.ABSENT)] == ["a", "", None]
    assert [table.find(text) for text in ("a", "b", None)] == [0, arrays.ABSENT, arrays.ABSENT]
    assert len(table) == 2


def test_columns_grow_and_close_up():
    rows = Rows()
    column, table = rows.column("int64", -1), rows.column("int64", 0, lanes=2)
    for number in range(100):
        assert rows.add() == number
        column.array[number] = number
        table.array[1, number] = -number
    assert column.view.tolist() == list(range(100))
    assert rows.remove(3) == 99
    assert column.view[3] == 99
    assert table.view[:, 3].tolist() == [0, -99]
    assert table.add_lane() == 2
    assert table.view.shape == (3, 99)
    assert rows.remove(98) == 98
    assert rows.add() == 98
    assert column.view[98] == -1
    with pytest.raises(TypeError, match="lanes"):
        column.add_lane()


def test_few_names_are_indexed_at_a_time(monkeypatch):
    monkeypatch.setattr(node_table, "MAX_NAMES", 3)
    table = node_table.Images()
    table.set_row(0, {f"image-{number}": number for number in range(10)})
    assert [table.state(f"image-{number}").sizes.tolist() for number in range(10)] == [[number] for number in range(10)]
    assert len(table._by_name) <= 3


def service(name, namespace=""):
    return objects.Service(metadata=objects.ObjectMeta(name=name, namespace=namespace))


def test_objects_are_found_by_kind_namespace_and_name():
    store = ObjectStore()
    web, api = service("web"), service("api", "edge")
    gold = objects.StorageClass(metadata=objects.ObjectMeta(name="gold"))
    for obj in (web, api, gold):
        store.put(obj)
    assert store.get(objects.Service, "web") is web
    assert store.get(objects.Service, "web", "default") is web
    assert store.get(objects.Service, "web", "edge") is None
    assert store.get(objects.StorageClass, "gold") is gold
    assert store.all(objects.Service) == (web, api)
    assert store.all(objects.Service, "edge") == (api,)
    assert store.all(objects.Namespace) == ()
    assert set(map(objects.kind_of, store)) == {"Service", "StorageClass"}


def test_revisions_are_per_kind():
    store = ObjectStore()
    assert store.revision_of(objects.Service) == 0
    store.put(service("web"))
    before = store.revision_of(objects.Service)
    store.put(objects.StorageClass(metadata=objects.ObjectMeta(name="gold")))
    assert store.revision_of(objects.Service) == before
    assert store.revision_of(objects.Service, objects.StorageClass) > before
    assert not store.drop("Service", "default/other")
    assert store.revision_of(objects.Service) == before
    assert store.drop("Service", "default/web")
    assert store.revision_of(objects.Service) > before
    assert store.get(objects.Service, "web") is None


def with_limits(*containers, init=(), pod_level=None, overhead=None):
    def container(name, amounts):
        always = "Always" if name.startswith("side") else None
        return objects.Container(name=name, resources=objects.ContainerResources(limits=amounts), restart_policy=always)

    spec = objects.PodSpec(
        containers=tuple(container(f"main-{number}", amounts) for number, amounts in enumerate(containers)),
        init_containers=tuple(container(name, amounts) for name, amounts in init),
        resources=None if pod_level is None else objects.ContainerResources(limits=pod_level),
        overhead=overhead or {},
    )
    return objects.Pod(spec=spec)


@pytest.mark.parametrize(
    ("pod", "cpu"),
    [
        (with_limits({"cpu": "1"}, {"cpu": "500m"}), 1500),
        (with_limits({"cpu": "1"}, {}), None),
        (with_limits({"cpu": "1"}, init=[("first", {"cpu": "3"})]), 3000),
        (with_limits({"cpu": "1"}, init=[("first", {})]), None),
        (with_limits({"cpu": "1"}, init=[("side", {"cpu": "2"}), ("last", {"cpu": "2"})]), 4000),
        (with_limits({"cpu": "3"}, init=[("side", {"cpu": "2"}), ("last", {"cpu": "2"})]), 5000),
        (with_limits({}, pod_level={"cpu": "2"}), 2000),
        (with_limits({"cpu": "1"}, overhead={"cpu": "100m", "memory": "1Gi"}), 1100),
        (with_limits(), None),
    ],
)
def test_limits_add_up_unless_one_is_missing(pod, cpu):
    found = requests.pod_limits(pod)
    assert found.get("cpu") == cpu
    assert "memory" not in found


def test_a_bad_limit_is_named():
    with pytest.raises(InvalidObject, match="main-0"):
        requests.pod_limits(with_limits({"cpu": "much"}))

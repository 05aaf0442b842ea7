"""Edge cases of volume plugins that the vectors do not cover."""

from __future__ import annotations

import pytest

from tests.unit.framework.kube import ZONE, decide, node, pod, rejected, state

NO_VOLUME = ["node(s) didn't find available persistent volumes to bind"]
NO_SPACE = ["node(s) did not have enough free storage"]
NO_DISK = ["node(s) had no available disk"]
EXCEEDED = ["node(s) exceed max volume count"]
BOUND = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


def claim(name="data", *, volume="", size="10Gi", storage_class="local", metadata=None, status=None, **spec):
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **(metadata or {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            "volumeName": volume,
            **spec,
        },
        "status": status or {},
    }


def volume(name, *, on=None, size="10Gi", metadata=None, phase="Available", **spec):
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": on}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if on else {}
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local", **affinity, **spec},
        "status": {"phase": phase},
    }


def storage_class(name="local", provisioner="kubernetes.io/no-provisioner", mode="WaitForFirstConsumer", **more):
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def using(*claims, **spec):
    return pod(volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims], **spec)


def binding(claims, volumes, names="ab", asking=None, **others):
    """The nodes that VolumeBinding rejects, with the reasons."""
    nodes = [node(name, labels={ZONE: f"zone-{name}"}) for name in names]
    others = {"storageClasses": [storage_class()], **others}
    cluster = state(nodes, persistentVolumeClaims=claims, persistentVolumes=volumes, **others)
    return rejected("VolumeBinding", cluster, asking or using(*(one["metadata"]["name"] for one in claims)))


def test_a_claim_takes_a_volume_that_the_node_can_reach():
    assert binding([claim()], [volume("v", on=["a"])]) == {"b": NO_VOLUME}


def test_two_claims_need_two_volumes():
    small, large = volume("small", on=["a", "b"]), volume("large", on=["a"], size="20Gi")
    assert binding([claim("one"), claim("two")], [small, large]) == {"b": NO_VOLUME}


def test_the_larger_claim_gets_the_larger_volume():
    volumes = [volume("small", on=["a"]), volume("large", on=["a"], size="20Gi")]
    assert binding([claim("large-one", size="15Gi"), claim("small-one")], volumes, names="a") == {}


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ({}, {"size": "9Gi"}),
        ({}, {"phase": "Released"}),
        ({}, {"accessModes": ["ReadOnlyMany"]}),
        ({}, {"volumeMode": "Block"}),
        ({"volumeMode": "Block"}, {}),
        ({}, {"storageClassName": "other"}),
        ({}, {"volumeAttributesClassName": "gold"}),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, {}),
        ({}, {"claimRef": {"namespace": "default", "name": "another"}}),
        ({}, {"claimRef": {"namespace": "default", "name": "data", "uid": "an earlier one"}}),
        ({}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
)
def test_volumes_that_would_not_do(wanted, offered):
    assert binding([claim(**wanted)], [volume("v", **offered)], names="a") == {"a": NO_VOLUME}


def test_a_volume_reserved_for_the_claim_is_the_only_one_it_may_get():
    reserved = volume("mine", on=["b"], size="50Gi", claimRef={"namespace": "default", "name": "data"}, phase="Pending")
    assert binding([claim()], [volume("any"), reserved]) == {"a": NO_VOLUME}


def test_a_provisioner_that_has_begun_decides_the_node():
    chosen = claim(storage_class="made", metadata={"annotations": {"volume.kubernetes.io/selected-node": "b"}})
    assert binding([chosen], [], storageClasses=[storage_class("made", "csi.example.com")]) == {"a": NO_VOLUME}


def test_a_provisioner_makes_volumes_where_its_class_allows():
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-b", "zone-c"]}]}]
    made = storage_class("made", "csi.example.com", allowedTopologies=allowed)
    assert binding([claim(storage_class="made")], [], storageClasses=[made]) == {"a": NO_VOLUME}


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        ([], {"a": NO_SPACE, "b": NO_SPACE}),
        ([{"capacity": "9Gi"}], {"a": NO_SPACE, "b": NO_SPACE}),
        ([{"capacity": "10Gi"}], {"b": NO_SPACE}),
        ([{"capacity": "99Gi", "maximumVolumeSize": "5Gi"}], {"a": NO_SPACE, "b": NO_SPACE}),
        ([{"capacity": "99Gi", "storageClassName": "other"}], {"a": NO_SPACE, "b": NO_SPACE}),
    ],
)
def test_a_driver_that_counts_its_storage_must_have_enough(offers, expected):
    capacities = [
        {
            "metadata": {"name": f"c{n}", "namespace": "default"},
            "storageClassName": "made",
            "nodeTopology": {"matchLabels": {ZONE: "zone-a"}},
            **offer,
        }
        for n, offer in enumerate(offers)
    ]
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    classes = [storage_class("made", "csi.example.com")]
    found = binding([claim(storage_class="made")], [], storageClasses=classes, csiDrivers=[driver], csiStorageCapacities=capacities)
    assert found == expected


def test_a_bound_claim_whose_volume_is_gone():
    found = binding([claim(volume="gone", metadata=BOUND)], [])
    reason = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert found == {"a": [reason], "b": [reason]}


@pytest.mark.parametrize(
    ("claims", "spec", "message"),
    [
        ([], {}, 'persistentvolumeclaim "data" not found'),
        ([claim(volume="v", status={"phase": "Lost"})], {}, 'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'),
        ([claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], {}, 'persistentvolumeclaim "data" is being deleted'),
        ([claim(storage_class="")], {}, "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(volume="v")], {}, "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storage_class="modeless")], {}, 'VolumeBindingMode not set for StorageClass "modeless"'),
        (
            [],
            {"volumes": [{"name": "scratch", "ephemeral": {}}]},
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
        ),
        (
            [claim("p-scratch")],
            {"volumes": [{"name": "scratch", "ephemeral": {}}]},
            "PVC default/p-scratch was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_claims_that_refuse_the_pod_as_a_whole(claims, spec, message):
    modeless = {"metadata": {"name": "modeless"}, "provisioner": "x"}
    asking = pod(**spec) if spec else using("data")
    assert binding(claims, [], names="a", asking=asking, storageClasses=[storage_class(), modeless]) == {"a": [message]}


def test_the_pod_of_an_ephemeral_volume_uses_its_own_claim():
    owned = claim("p-scratch", metadata={"ownerReferences": [{"uid": "uid-p", "controller": True, "kind": "Pod", "name": "p"}]})
    assert binding([owned], [volume("v", on=["b"])], asking=pod(volumes=[{"name": "scratch", "ephemeral": {}}])) == {"a": NO_VOLUME}


@pytest.mark.parametrize(
    ("mine", "theirs", "free"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d"}}, False),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d"}}, False),
        (
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            False,
        ),
        ({"iscsi": {"iqn": "q"}}, {"iscsi": {"iqn": "q", "readOnly": True}}, False),
        ({"iscsi": {"iqn": "q"}}, {"iscsi": {"iqn": "r"}}, True),
        ({"rbd": {"monitors": ["m", "n"], "image": "i"}}, {"rbd": {"monitors": ["n"], "image": "i"}}, False),
        ({"rbd": {"monitors": ["m"], "image": "i"}}, {"rbd": {"monitors": ["n"], "image": "i"}}, True),
        # Two storages in one volume: an API server refuses such pods, and stores previews of them.
        ({"iscsi": {"iqn": "q"}, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, {"iscsi": {"iqn": "q"}}, False),
    ],
)
def test_disks_that_exclude_each_other(mine, theirs, free):
    cluster = state([node("a"), node("b")], [pod("other", on="a", volumes=[{"name": "d", **theirs}])])
    assert rejected("VolumeRestrictions", cluster, pod(volumes=[{"name": "d", **mine}])) == ({} if free else {"a": NO_DISK})


@pytest.mark.parametrize(
    ("node_labels", "volume_labels", "fits"),
    [
        ({ZONE: "x"}, {ZONE: "x"}, True),
        ({ZONE: "x"}, {ZONE: "y__x"}, True),
        ({ZONE: "x"}, {ZONE: "y"}, False),
        ({ZONE: "x"}, {"failure-domain.beta.kubernetes.io/zone": "x"}, True),  # requested by its newer name
        ({ZONE: "x"}, {ZONE: "y__"}, True),  # cannot be read, hence is not looked at
        ({ZONE: "x"}, {"topology.kubernetes.io/region": "r"}, False),
        ({}, {ZONE: "y"}, True),  # a node that is in no zone at all
    ],
)
def test_labels_of_volumes(node_labels, volume_labels, fits):
    cluster = state(
        [node("a", labels=node_labels)],
        persistentVolumeClaims=[claim(volume="v", metadata=BOUND)],
        persistentVolumes=[volume("v", metadata={"labels": volume_labels})],
    )
    assert rejected("VolumeZone", cluster, using("data")) == ({} if fits else {"a": ["node(s) had no available volume zone"]})


def limited(count=2, driver="csi.example.com", **metadata):
    return {"metadata": {"name": "a", **metadata}, "spec": {"drivers": [{"name": driver, "nodeID": "a", "allocatable": {"count": count}}]}}


def csi(name, driver="csi.example.com"):
    return volume(f"pv-{name}", csi={"driver": driver, "volumeHandle": f"handle-{name}"})


def attaching(*claims, running=(), count=2, attachments=()):
    """The result of NodeVolumeLimits for a node with pods that use claims, one letter each, and of a newcomer that uses some."""
    names = sorted({*claims, *(letter for letters in running for letter in letters)})
    cluster = state(
        [node("a"), node("without a CSINode")],
        [using(*letters, on="a", metadata={"name": f"r{n}", "uid": f"r{n}"}) for n, letters in enumerate(running)],
        persistentVolumeClaims=[claim(name, volume=f"pv-{name}", metadata=BOUND) for name in names],
        persistentVolumes=[csi(name) for name in {*names, *attachments}],
        csiNodes=[limited(count)],
        volumeAttachments=[
            {
                "metadata": {"name": f"a-{name}"},
                "spec": {"attacher": "csi.example.com", "nodeName": "a", "source": {"persistentVolumeName": f"pv-{name}"}},
            }
            for name in attachments
        ],
    )
    return rejected("NodeVolumeLimits", cluster, using(*claims))


def test_volumes_up_to_the_limit():
    assert attaching("x", "y") == {}
    assert attaching("x", "y", "z") == {"a": EXCEEDED}


def test_a_volume_that_is_there_already_counts_once():
    assert attaching("x", "y", running=["x", "x"]) == {}
    assert attaching("x", "y", running=["x", "z"]) == {"a": EXCEEDED}


def test_volumes_attached_without_a_pod_count_too():
    assert attaching("x", attachments=["y"]) == {}
    assert attaching("x", attachments=["y", "z"]) == {"a": EXCEEDED}
    assert attaching("x", attachments=["x", "z"]) == {}


@pytest.mark.parametrize(
    ("plugin", "migrated", "counts"),
    [("awsElasticBlockStore", False, True), ("portworxVolume", False, False), ("portworxVolume", True, True)],
)
def test_in_tree_volumes_count_as_those_of_their_driver(plugin, migrated, counts):
    driver = {"awsElasticBlockStore": "ebs.csi.aws.com", "portworxVolume": "pxd.portworx.com"}[plugin]
    annotations = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/portworx-volume"}} if migrated else {}
    cluster = state(
        [node("a")],
        persistentVolumeClaims=[claim(volume="v", metadata=BOUND)],
        persistentVolumes=[volume("v", **{plugin: {"volumeID": "aws://zone/vol-1"}})],
        csiNodes=[limited(0, driver, **annotations)],
    )
    assert rejected("NodeVolumeLimits", cluster, using("data")) == ({"a": EXCEEDED} if counts else {})


def test_a_claim_without_a_volume_counts_for_its_provisioner():
    cluster = state(
        [node("a")],
        persistentVolumeClaims=[claim(storage_class="made")],
        storageClasses=[storage_class("made", "csi.example.com")],
        csiNodes=[limited(0)],
    )
    assert rejected("NodeVolumeLimits", cluster, using("data")) == {"a": EXCEEDED}
    assert (
        decide(cluster, using("data")).message == "0/1 nodes are available: 1 node(s) exceed max volume count. no new claims to deallocate"
    )

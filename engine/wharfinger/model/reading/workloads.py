"""Workloads expanded to the pods that their controllers would create, with the defaults of the API server.

A user who tries out a policy has a Deployment, not pods. The pods created here are pending, named `<workload>-<number>`, and have all that
scheduling reads of real pods: labels including the hash or ordinal that the controller adds, the controller (for default spreading), a
StatefulSet's claims, a DaemonSet's node affinity and tolerations (controller/daemon). Nothing is random: the same manifest gives the same
pods. A claim for a generic ephemeral volume is made as its controller would make it.

Objects taken from a cluster have the API server's defaults, manifests do not: pods get them by `admission`, claims here, as from the
admission plugin DefaultStorageClass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from wharfinger.errors import InvalidObject
from wharfinger.language.report import wording
from wharfinger.model import objects
from wharfinger.model.objects import matching
from wharfinger.model.reading.admission import Admission
from wharfinger.model.reading.files import Objects

CLAIMS = (objects.ResourceClaim, objects.PersistentVolumeClaim)
"""The kinds of objects that keep what they are bound to: a manifest of one that the cluster has changes nothing."""
LOOKED_UP: tuple[type[objects.AnyObject], ...] = (
    objects.PriorityClass,
    objects.RuntimeClass,
    objects.LimitRange,
    objects.StorageClass,
    *CLAIMS,
)
"""The kinds of a cluster that `expand` looks up for pods; for DaemonSets the nodes, too."""
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def default_class(classes: Iterable[objects.StorageClass]) -> str | None:
    """The name of the class of claims that name none: the newest of those that are marked as the default, of equally old ones the first.

    As of GetDefaultClass (pkg/volume/util/storageclass.go).
    """

    def order(one: objects.StorageClass) -> tuple[float, str]:
        created = one.metadata.creation_timestamp
        return -(created.timestamp() if created is not None else 0.0), one.metadata.name

    marked = [one for one in classes if any(one.metadata.annotations.get(key) == "true" for key in _DEFAULT_CLASS)]
    return min(marked, key=order).metadata.name if marked else None


def _with_class(claim: objects.PersistentVolumeClaim, default: str | None) -> objects.PersistentVolumeClaim:
    """The claim with the default class if it names none; "" names that it wants none."""
    if default is None or claim.spec.storage_class_name is not None or objects.CLASS_ANNOTATION in claim.metadata.annotations:
        return claim
    return structs.replace(claim, spec=structs.replace(claim.spec, storage_class_name=default))


def owner_of_claims(pod: objects.Pod) -> objects.OwnerReference:
    """The reference to a pod by which a claim is that of its ephemeral volume."""
    return objects.OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)


def _ephemeral_claims(pod: objects.Pod) -> Iterator[objects.PersistentVolumeClaim]:
    """The claims that the controller makes for the generic ephemeral volumes of a pod (pkg/controller/volume/ephemeral)."""
    for volume in pod.spec.volumes:
        template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
        if template is not None:
            metadata = objects.ObjectMeta(
                name=f"{pod.metadata.name}-{volume.name}",
                namespace=pod.metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                owner_references=(owner_of_claims(pod),),
            )
            yield objects.PersistentVolumeClaim(metadata=metadata, spec=template.spec)


_TOLERATED = {
    "node.kubernetes.io/not-ready": "NoExecute",
    "node.kubernetes.io/unreachable": "NoExecute",
    "node.kubernetes.io/disk-pressure": "NoSchedule",
    "node.kubernetes.io/memory-pressure": "NoSchedule",
    "node.kubernetes.io/pid-pressure": "NoSchedule",
    "node.kubernetes.io/unschedulable": "NoSchedule",
}
_WITHOUT_NETWORK = {"node.kubernetes.io/network-unavailable": "NoSchedule"}


def with_tolerations(spec: objects.PodSpec) -> objects.PodSpec:
    """The spec with the tolerations that every daemon has."""
    wanted = _TOLERATED | (_WITHOUT_NETWORK if spec.host_network else {})
    added = tuple(objects.Toleration(key=key, operator="Exists", effect=effect) for key, effect in wanted.items())
    return structs.replace(spec, tolerations=(*(one for one in spec.tolerations if one not in added), *added))


def runs_on(spec: objects.PodSpec, node: objects.Node) -> bool:
    """True if a daemon of this spec belongs on a node: its name, node selector and affinity, and taints; not its resources."""
    name, labels = node.metadata.name, node.metadata.labels
    if spec.node_name not in {"", name} or not matching.of_labels(spec.node_selector).matches(labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None and not matching.node_selector(required).matches(labels, name):
        return False
    return not matching.untolerated(spec.tolerations, node.spec.taints)


def pinned_to(spec: objects.PodSpec, node_name: str) -> objects.PodSpec:
    """The spec with node affinity for one node only, in place of the names that its terms had (ReplaceDaemonSetPodNodeNameNodeAffinity)."""
    only = objects.NodeSelectorTerm(
        match_fields=(objects.NodeSelectorRequirement(key=matching.NODE_NAME_FIELD, operator="In", values=(node_name,)),)
    )
    affinity = spec.affinity or objects.Affinity()
    node_affinity = structs.replace(
        affinity.node_affinity or objects.NodeAffinity(),
        required_during_scheduling_ignored_during_execution=objects.NodeSelector(node_selector_terms=(only,)),
    )
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=node_affinity))


MADE_PER_POD = 10
"""Other objects that workloads may make for each pod of a limit: claims, mostly."""
_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: what Kubernetes writes into names never spells anything
MAX_PODS = 1_000_000
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Expansion(Struct, frozen=True, kw_only=True):
    """The pending pods of workloads.

    `made` are the other objects that the cluster needs for correct decisions about the pods: what controllers would create (ReplicaSets,
    claims of StatefulSets and of ephemeral volumes), and what the pods name among the manifests (PodGroups, claims for devices and their
    templates). `warnings` are sentences about objects that could not be looked up, and about pods that name their node.
    """

    pods: tuple[objects.Pod, ...]
    made: tuple[objects.AnyObject, ...] = ()
    warnings: tuple[str, ...] = ()


def expand(
    given: Objects, cluster: Objects | None = None, *, limit: int | None = None, is_taken: Callable[[str], bool] = lambda _uid: False
) -> Expansion:
    """The pods of every workload and every pod among `given`; `cluster` has the nodes, and the classes and claims to look up.

    No pod has a uid that `is_taken`. Claims without a class get the default one of the cluster.

    Raises InvalidObject at the first pod beyond `limit` (default: `MAX_PODS`), and at the first of the other objects beyond `MADE_PER_POD`
    times as many.
    """
    limit = MAX_PODS if limit is None else limit
    known = [given] if cluster is None else [cluster, given]
    admission = Admission(_all(known, objects.PriorityClass), _all(known, objects.RuntimeClass), _all(known, objects.LimitRange))
    pods: list[objects.Pod] = []
    made: list[objects.AnyObject] = []
    uids: set[str] = set()
    without_pods: list[str] = []
    claims = set() if cluster is None else {(kind, objects.key_of(claim)) for kind in CLAIMS for claim in _all([cluster], kind)}
    default = default_class(() if cluster is None else _all([cluster], objects.StorageClass))

    def add(obj: objects.AnyObject) -> None:
        if (type(obj), objects.key_of(obj)) in claims:
            return  # its devices or its volume are those that it has in the cluster
        made.append(_with_class(obj, default) if isinstance(obj, objects.PersistentVolumeClaim) else obj)

    for workload, obj in _expanded(given, _all(known, objects.Node)):
        if obj is None:
            without_pods.append(f"{objects.kind_of(workload)} {objects.key_of(workload)} has no pods: {_why_no_pods(workload)}")
        elif isinstance(obj, objects.Pod):
            pod = with_free_uid(admission.admit(obj), lambda uid: uid in uids or is_taken(uid))
            uids.add(pod.metadata.uid)
            pods.append(pod)
            for claim in _ephemeral_claims(pod):
                add(claim)
        else:
            add(obj)
        if len(pods) > limit:
            raise InvalidObject(f"the workloads have more than {limit:,} pods; {objects.key_of(pods[-1])} is one too many")
        if len(made) > MADE_PER_POD * limit:
            kind, key = objects.kind_of(made[-1]), objects.key_of(made[-1])
            raise InvalidObject(f"the pods need more than {MADE_PER_POD * limit:,} other objects; {kind} {key} is one too many")
    return Expansion(pods=tuple(pods), made=tuple(made), warnings=(*admission.warnings, *without_pods, *_kept_to_one_node(pods)))


def left_out(given: Objects) -> list[str]:
    """A sentence for each kind of a written manifest from which no pods are created, and which pods do not name."""
    used = {objects.DaemonSet, objects.PriorityClass, objects.RuntimeClass, objects.LimitRange, *_EXPANDERS}
    counts = {names[1]: len(given.of(kind)) for names, kind in objects.KINDS.items() if kind not in used}
    found = [(count, kind) for kind, count in (*counts.items(), *given.ignored.items()) if count]
    return [f"{count} {kind} left out: no pods are created from this kind" for count, kind in found]


def _kept_to_one_node(pods: Iterable[objects.Pod]) -> Iterator[str]:
    """A sentence for each node that pods name in spec.nodeName: no other node is tried for them."""
    named: dict[str, list[str]] = {}
    for pod in pods:
        if pod.spec.node_name:
            named.setdefault(pod.spec.node_name, []).append(objects.key_of(pod))
    for node, keys in named.items():
        yield f"pod {wording.capped(keys, 1)}: spec.nodeName is {node}, so no other node is tried; remove the field to try every node"


def _expanded(given: Objects, nodes: Iterable[objects.Node]) -> Iterator[tuple[objects.AnyObject, objects.AnyObject | None]]:
    """(a workload, an object made of it) for each; None in place of an object for a workload of which no pod is made."""
    for kind, found in given.by_kind.items():
        for workload in found:
            has_pods = kind in _WITHOUT_PODS
            if isinstance(workload, objects.DaemonSet):
                made: Iterator[objects.AnyObject] = _daemon_pods(workload, nodes)
            elif kind in _EXPANDERS:
                made = _EXPANDERS[kind](workload)
            else:
                continue
            for obj in made:
                has_pods |= isinstance(obj, objects.Pod)
                yield workload, obj
            if not has_pods:
                yield workload, None


def _why_no_pods(workload: objects.AnyObject) -> str:
    """The reason why a workload of which no pod is made has none."""
    if isinstance(workload, objects.DaemonSet):
        return "its node selector, affinity and tolerations admit no node"
    if isinstance(workload, objects.Job | objects.CronJob) and workload.spec.suspend:
        return "it is suspended"
    return "its replicas or its parallelism is 0"


def _all(sources: Iterable[Objects], kind: type[Any]) -> list[Any]:
    return [obj for source in sources for obj in source.of(kind)]


def _from_template(
    owner: objects.AnyObject,
    template: objects.PodTemplateSpec,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    owned_by: objects.OwnerReference | None = None,
) -> objects.Pod:
    """One pod of a template; its uid contains the kind, namespace and name of its owner."""
    namespace = owner.metadata.namespace or "default"
    metadata = objects.ObjectMeta(
        name=name,
        namespace=namespace,
        uid=f"{objects.kind_of(owner)}/{namespace}/{owner.metadata.name}/{name}",
        labels={**template.metadata.labels, **labels} if labels else template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owned_by or _reference(owner),),
    )
    return objects.Pod(metadata=metadata, spec=template.spec)


def _reference(owner: objects.AnyObject) -> objects.OwnerReference:
    group, kind = next(names for names, struct in objects.KINDS.items() if struct is type(owner))
    return objects.OwnerReference(
        api_version=f"{group}/v1" if group else "v1",
        kind=kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid or f"{kind}/{objects.key_of(owner)}",
        controller=True,
    )


def _count(owner: objects.AnyObject, replicas: int | None) -> range:
    """The numbers of the pods of a workload; InvalidObject for less than 0 and for more than `MAX_PODS`, before any is made."""
    if replicas is not None and not 0 <= replicas <= MAX_PODS:
        limits = f"at most {MAX_PODS:,} are supported" if replicas > 0 else "the number cannot be negative"
        raise InvalidObject(f"{objects.kind_of(owner)} {objects.key_of(owner)} has {replicas:,} pods; {limits}")
    return range(1 if replicas is None else replicas)


def _deployment(deployment: objects.Deployment) -> Iterator[objects.AnyObject]:
    """The ReplicaSet of a Deployment, with the pod template hash, and its pods."""
    spec = deployment.spec
    label = {"pod-template-hash": _short_hash(spec.template)}
    template = structs.replace(
        spec.template, metadata=structs.replace(spec.template.metadata, labels={**spec.template.metadata.labels, **label})
    )
    selector = spec.selector or objects.LabelSelector(match_labels=spec.template.metadata.labels)
    replica_set = objects.ReplicaSet(
        metadata=objects.ObjectMeta(
            name=f"{deployment.metadata.name}-{label['pod-template-hash']}",
            namespace=deployment.metadata.namespace or "default",
            labels=template.metadata.labels,
            owner_references=(_reference(deployment),),
        ),
        spec=structs.replace(spec, selector=structs.replace(selector, match_labels={**selector.match_labels, **label}), template=template),
    )
    yield replica_set
    for number in _count(deployment, spec.replicas):
        name = f"{deployment.metadata.name}-{number}"
        yield _from_template(deployment, template, name, owned_by=_reference(replica_set))


def _short_hash(template: objects.PodTemplateSpec) -> str:
    digest = hashlib.blake2b(_ENCODER.encode(template), digest_size=10).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest)


def _replicated(owner: objects.ReplicaSet | objects.ReplicationController) -> Iterator[objects.AnyObject]:
    yield owner
    for number in _count(owner, owner.spec.replicas):
        yield _from_template(owner, owner.spec.template, f"{owner.metadata.name}-{number}")


def _stateful_set(owner: objects.StatefulSet) -> Iterator[objects.AnyObject]:
    spec = owner.spec
    yield owner
    for index in _count(owner, spec.replicas):
        ordinal = index + (spec.ordinals.start if spec.ordinals is not None else 0)
        name = f"{owner.metadata.name}-{ordinal}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
        claims = {template.metadata.name: f"{template.metadata.name}-{name}" for template in spec.volume_claim_templates}
        for template in spec.volume_claim_templates:
            metadata = structs.replace(
                template.metadata, name=claims[template.metadata.name], namespace=owner.metadata.namespace or "default"
            )
            yield objects.PersistentVolumeClaim(metadata=metadata, spec=template.spec)
        pod = _from_template(owner, spec.template, name, labels=labels)
        yield structs.replace(pod, spec=_with_claims(pod.spec, claims))


def _with_claims(spec: objects.PodSpec, claims: Mapping[str, str]) -> objects.PodSpec:
    """A claim template takes the place of a volume of the same name."""
    kept = [volume for volume in spec.volumes if volume.name not in claims]
    made = [
        objects.Volume(name=name, persistent_volume_claim=objects.PersistentVolumeClaimVolume(claim_name=claim))
        for name, claim in claims.items()
    ]
    return structs.replace(spec, volumes=(*made, *kept))


def _job(owner: objects.Job) -> Iterator[objects.AnyObject]:
    """The pods that run at the same time: parallelism, but no more than completions."""
    spec = owner.spec
    at_once = spec.parallelism
    if spec.completions is not None:
        at_once = min(1 if at_once is None else at_once, spec.completions)
    names = {"batch.kubernetes.io/job-name": owner.metadata.name, "job-name": owner.metadata.name}
    metadata = structs.replace(spec.template.metadata, labels={**spec.template.metadata.labels, **names})  # which all pods share
    for index in _count(owner, 0 if spec.suspend else at_once):
        own = metadata
        if spec.completion_mode == "Indexed":
            completion = {"batch.kubernetes.io/job-completion-index": str(index)}
            own = structs.replace(metadata, labels={**metadata.labels, **completion}, annotations={**metadata.annotations, **completion})
        yield _from_template(owner, structs.replace(spec.template, metadata=own), f"{owner.metadata.name}-{index}")


def _cron_job(owner: objects.CronJob) -> Iterator[objects.AnyObject]:
    """The pods of one run."""
    if owner.spec.suspend:
        return iter(())
    template = owner.spec.job_template
    metadata = structs.replace(template.metadata, name=owner.metadata.name, namespace=owner.metadata.namespace)
    return _job(objects.Job(metadata=metadata, spec=template.spec))


def _pod_template(owner: objects.PodTemplate) -> Iterator[objects.AnyObject]:
    pod = _from_template(owner, owner.template, owner.metadata.name)
    yield structs.replace(pod, metadata=structs.replace(pod.metadata, owner_references=()))


def _bare_pod(pod: objects.Pod) -> Iterator[objects.AnyObject]:
    """The pod as it was before it was scheduled; a node that its manifest demands stays."""
    ran = bool(pod.spec.node_name and pod.status.phase)
    metadata = pod.metadata
    name, namespace = metadata.name, metadata.namespace or "default"
    yield objects.Pod(
        metadata=structs.replace(metadata, namespace=namespace, uid=metadata.uid or _own_uid(namespace, name), deletion_timestamp=None),
        spec=structs.replace(pod.spec, node_name="") if ran else pod.spec,
    )


def _own_uid(namespace: str, name: str) -> str:
    return f"Pod/{namespace}/{name}"


def with_free_uid(pod: objects.Pod, is_taken: Callable[[str], bool]) -> objects.Pod:
    """The pod, with another uid if its own is taken: the API server gives each pod that is created a new one."""
    metadata = pod.metadata
    uid, own = metadata.uid, _own_uid(metadata.namespace, metadata.name)
    while is_taken(uid):
        uid = own if uid == metadata.uid != own else f"{uid}/new"
    return pod if uid == metadata.uid else structs.replace(pod, metadata=structs.replace(metadata, uid=uid))


def _named_by_pods(
    named: objects.PodGroup
    | objects.CoschedulingPodGroup
    | objects.ResourceClaim
    | objects.ResourceClaimTemplate
    | objects.PersistentVolumeClaim,
) -> Iterator[objects.AnyObject]:
    """An object that the pods name, with what else the API server would fill in left out (the priority of the class of a PodGroup)."""
    yield structs.replace(named, metadata=structs.replace(named.metadata, namespace=named.metadata.namespace or "default"))


def _daemon_pods(owner: objects.DaemonSet, nodes: Iterable[objects.Node]) -> Iterator[objects.Pod]:
    """One pod for each node that the controller would choose, bound to it by node affinity."""
    template = structs.replace(owner.spec.template, spec=with_tolerations(owner.spec.template.spec))
    for node in nodes:
        if runs_on(template.spec, node):
            pod = _from_template(owner, template, f"{owner.metadata.name}-{node.metadata.name}")
            yield structs.replace(pod, spec=pinned_to(pod.spec, node.metadata.name))


_EXPANDERS: Mapping[type[objects.AnyObject], Callable[[Any], Iterator[objects.AnyObject]]] = {
    objects.Deployment: _deployment,
    objects.ReplicaSet: _replicated,
    objects.ReplicationController: _replicated,
    objects.StatefulSet: _stateful_set,
    objects.Job: _job,
    objects.CronJob: _cron_job,
    objects.PodTemplate: _pod_template,
    objects.Pod: _bare_pod,
    objects.PodGroup: _named_by_pods,
    objects.CoschedulingPodGroup: _named_by_pods,
    objects.ResourceClaim: _named_by_pods,
    objects.ResourceClaimTemplate: _named_by_pods,
    objects.PersistentVolumeClaim: _named_by_pods,
}
_WITHOUT_PODS = frozenset({objects.PodGroup, objects.CoschedulingPodGroup, objects.ResourceClaimTemplate, *CLAIMS})
"""Kinds of objects that pods name, of which none is made."""

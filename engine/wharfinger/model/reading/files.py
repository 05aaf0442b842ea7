"""Clusters read from files: output of `kubectl get … -o json|yaml`, manifests, folders of these, standard input, gzip.

Each item of a List is decoded once, into the struct of its kind; managed fields, contents of volumes and the like never become Python
objects. Equal parts of many objects are kept once: the fifty thousand pods of a cluster come from a few hundred templates. A broken item
is reported with file, index, kind and field; the caller chooses whether to continue.
"""

from __future__ import annotations

import gc
import io
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import msgspec
from msgspec import Struct, field, structs

from wharfinger.errors import InvalidObject
from wharfinger.model import objects
from wharfinger.model.objects import pod_view
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode, documents, snapshot_file

Part = TypeVar("Part")


class SharedParts:
    """Shares equal parts between the objects that were read so far."""

    def __init__(self) -> None:
        self._first_of: dict[bytes, objects.Pod] = {}
        self.templates: dict[str, bytes] = {}
        self._parts: dict[object, object] = {}

    def _once(self, part: Part) -> Part:
        return self._parts.setdefault(part, part)  # type: ignore[return-value]  # equal hashable parts are of one type

    def node(self, node: objects.Node) -> objects.Node:
        """An equal node that shares its images and conditions with those before it."""
        status = structs.replace(node.status, images=tuple(map(self._once, node.status.images)))
        return structs.replace(node, status=status)

    def pod(self, pod: objects.Pod) -> objects.Pod:
        """An equal pod that shares its parts with the first pod of its template; without volumes that nothing reads."""
        template = pod_view.digest(pod)
        first = self._first_of.setdefault(template, pod)
        if pod.metadata.name:
            self.templates[objects.key_of(pod)] = template
        return objects.Pod(
            metadata=self._metadata(pod.metadata, first.metadata),
            spec=self._spec(pod.spec, first.spec),
            status=self._status(pod.status, first.status),
        )

    def _metadata(self, own: objects.ObjectMeta, first: objects.ObjectMeta) -> objects.ObjectMeta:
        return structs.replace(
            own,
            namespace=_same_or_own(own.namespace, first.namespace),
            generate_name=_same_or_own(own.generate_name, first.generate_name),
            labels=first.labels,
            annotations=first.annotations,
            owner_references=_same_or_own(own.owner_references, first.owner_references),
            finalizers=_same_or_own(own.finalizers, first.finalizers),
        )

    def _spec(self, own: objects.PodSpec, first: objects.PodSpec) -> objects.PodSpec:
        volumes = pod_view.kept_volumes(own)
        shared = pod_view.kept_volumes(first)
        return structs.replace(first, node_name=self._once(own.node_name), volumes=shared if volumes == shared else volumes)

    def _status(self, own: objects.PodStatus, first: objects.PodStatus) -> objects.PodStatus:
        return structs.replace(
            own,
            phase=_same_or_own(own.phase, first.phase),
            qos_class=first.qos_class,
            conditions=_same_or_own(own.conditions, first.conditions),
            container_statuses=_same_or_own(own.container_statuses, first.container_statuses),
            init_container_statuses=_same_or_own(own.init_container_statuses, first.init_container_statuses),
        )


def _same_or_own(own: Part, first: Part) -> Part:
    return first if own == first else own


T = TypeVar("T", bound=objects.KubeStruct)

MetricTable = dict[str, dict[str, snapshot_file.Sample]]

_MAX_LIST_DEPTH = 2  # kubectl flattens nested Lists
_TEMPLATE = {
    **dict.fromkeys(("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "ReplicationController", "Job"), "spec.template"),
    "CronJob": "spec.jobTemplate.spec.template",
    "PodTemplate": "template",
}
"""The field of each workload that describes its pods. The API server refuses a workload without it."""
_KINDS = frozenset(kind for _, kind in objects.KINDS)
_HEAD = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"\s*[,}]')


class Objects(Struct, frozen=True, kw_only=True):
    """The objects that were read.

    `by_kind` has every object under its struct, in the order of reading and each key once (the last one read counts). `metrics` is
    metric name → node → (value, time). `ignored` counts kinds that no decision needs, `skipped` has a message for each broken object that
    was left out, `replaced` counts objects that a later version replaced. `taken_at` is the latest time of capture in the files, in
    seconds since 1970. `unknown_fields` has a sentence for each field of a written manifest that Kubernetes does not know.
    `templates` has the template of each named pod by its key (namespace/name), as far as reading computed it.
    """

    by_kind: Mapping[type[objects.AnyObject], Sequence[objects.AnyObject]] = field(default_factory=dict)
    metrics: MetricTable = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    replaced: int = 0
    taken_at: float | None = None
    unknown_fields: tuple[str, ...] = ()
    templates: Mapping[str, bytes] = field(default_factory=dict)

    def of(self, kind: type[T]) -> Sequence[T]:
        """The objects of one struct, in the order of reading."""
        found: Any = self.by_kind
        return cast("Sequence[T]", found.get(kind, ()))

    @property
    def nodes(self) -> Sequence[objects.Node]:
        """The nodes."""
        return self.of(objects.Node)

    @property
    def pods(self) -> Sequence[objects.Pod]:
        """The pods, placed and pending."""
        return self.of(objects.Pod)

    def view(self, pod: objects.Pod) -> PodView:
        """The view of one of `pods`."""
        return PodView(pod, self.templates.get(objects.key_of(pod)))

    def __len__(self) -> int:
        return sum(len(found) for found in self.by_kind.values())


def read_objects(paths: Iterable[str | Path], *, skip_invalid: bool = False, written: bool = False) -> Objects:
    """All objects in the files, folders and `-` (standard input).

    UsageError if a path cannot be read; InvalidObject if an object cannot be read. With `skip_invalid` it is listed in `skipped` instead.
    `written`: the files are written by hand; they are read to the end, and checked for unknown fields, and for keys and objects that are
    there twice. The error lists everything that is wrong, one per line.
    """
    reader = _Reader(skip_invalid=skip_invalid, written=written)
    with _paused_collection():
        for path in paths:
            for label, stream in documents.streams(path):
                with documents.reading(label):
                    reader.read(label, stream)
    return reader.finish()


def read_bytes(content: bytes, label: str = "-", *, skip_invalid: bool = False, written: bool = False) -> Objects:
    """All objects in the content of one file; `label` is its name in messages, the rest as of `read_objects`."""
    reader = _Reader(skip_invalid=skip_invalid, written=written)
    reader.read(label, io.BytesIO(content))
    return reader.finish()


def of_capture(found: Iterable[objects.AnyObject], capture: snapshot_file.Capture, label: str) -> Objects:
    """Captured objects, equal to those that are read from the file of the capture; `label` is its name in messages."""
    reader = _Reader(skip_invalid=False)
    with _paused_collection():
        for obj in found:
            reader.keep(snapshot_file.kept(obj))
    reader.note(capture, label)
    return reader.finish()


@contextmanager
def _paused_collection() -> Iterator[None]:
    """A context without garbage collection: reading creates millions of objects and no cycles, and collection would double the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Reader:
    """Collects objects file by file."""

    def __init__(self, *, skip_invalid: bool, written: bool = False) -> None:
        self._skip_invalid = skip_invalid
        self._written = written
        self._refused: list[str] = []
        self._unknown_fields: list[str] = []
        self._found: dict[type[objects.AnyObject], dict[str, objects.AnyObject]] = {}
        self._sharing = SharedParts()
        self._metrics: MetricTable = {}
        self._ignored: Counter[str] = Counter()
        self._skipped: list[str] = []
        self._replaced = 0
        self._numbers: dict[tuple[type[objects.AnyObject], str, str], Iterator[int]] = {}
        self._differing: dict[str, dict[str, None]] = {}
        self._taken_at: float | None = None

    def finish(self) -> Objects:
        if self._refused:
            raise InvalidObject("\n".join([*self._refused, *self._unknown_fields]))
        if not self._written:
            self._check_uids()
        return Objects(
            by_kind={kind: list(found.values()) for kind, found in self._found.items()},
            metrics=self._metrics,
            ignored=dict(sorted(self._ignored.items())),
            skipped=(*self._skipped, *_several_versions(self._differing)),
            replaced=self._replaced,
            taken_at=self._taken_at,
            unknown_fields=tuple(self._unknown_fields),
            templates=self._sharing.templates,
        )

    def _check_uids(self) -> None:
        """Refuse a pod with the uid of another: pods are told apart by it."""
        first: dict[str, str] = {}
        for key, pod in list(self._found.get(objects.Pod, {}).items()):
            uid = pod.metadata.uid
            if uid and (other := first.setdefault(uid, key)) != key:
                self._refuse(f"Pod {key}", f"metadata.uid: {uid} is that of Pod {other}; remove it from one of them")
                del self._found[objects.Pod][key]

    def read(self, label: str, stream: BinaryIO) -> None:
        try:
            yaml_likely = label.removesuffix(".gz").endswith((".yaml", ".yml"))
            for document in documents.split(stream, yaml_likely=yaml_likely, unique_keys=self._written):
                self._read_document(document, label)
        except (decode.NotReadable, documents.BrokenItem) as error:
            self._refuse(label, str(error))

    def _read_document(self, document: documents.Document, label: str, depth: int = 0) -> None:
        if document.metrics is not None:
            self._add_metrics(document.metrics, label)
        if document.capture is not None:
            self._add_capture(document.capture, label)
        if document.items is None:
            return
        implied = _implied_kind(document)
        for index, item in enumerate(document.items):
            where = f"{label}: item {index}" if document.is_list else label
            self._read_item(item, where, implied, depth)

    def _read_item(self, item: documents.Item, where: str, implied: tuple[str, str], depth: int) -> None:
        try:
            nested = self._add_or_open(item, where, implied, depth)
        except InvalidObject as error:
            self._refuse(f"{where}{_shown_name(item)}", str(error))
            return
        if nested is not None:
            self._read_document(nested, where, depth + 1)

    def _add_or_open(self, item: documents.Item, where: str, implied: tuple[str, str], depth: int) -> documents.Document | None:
        """The List that an item is, or None when it is an object, which is added."""
        api_version, kind = _header(item)
        if not kind.endswith("List") or (nested := documents.as_list(item)) is None:
            self._add(item, where, *((api_version, kind) if kind else implied))
            return None
        if depth == _MAX_LIST_DEPTH:
            raise InvalidObject("it is a List in a List in a List")
        return nested

    def _add(self, item: documents.Item, where: str, api_version: str, kind: str) -> None:
        if not kind:
            raise InvalidObject("it has no kind; expected what `kubectl get … -o json` or `-o yaml` prints")
        group = api_version.rpartition("/")[0]
        struct = objects.KINDS.get((group, kind))
        if (api_version, kind) == ("policy/v1beta1", "PodDisruptionBudget"):
            raise InvalidObject(
                "policy/v1beta1 is not read: an empty selector there selects no pod, and in policy/v1 all; write it as policy/v1"
            )
        if struct is None and self._written and kind in _KINDS and not api_version:
            raise InvalidObject("it has no apiVersion; expected what `kubectl get … -o json` or `-o yaml` prints")
        if struct is None:
            self._ignored[f"{kind} of {api_version}" if self._written and kind in _KINDS else kind] += 1
            return
        plain: Any = None
        if self._written:
            plain = decode.parse_json(item) if isinstance(item, msgspec.Raw) else item
            unknown = decode.unknown_fields(plain, group, kind)
            self._unknown_fields += [f"{where}{_shown_name(item)}: {sentence}" for sentence in unknown]
        obj = decode.decode_json(item, struct) if isinstance(item, msgspec.Raw) else decode.convert(item, struct)
        if self._written:
            _require_template(plain, kind)
        if not obj.metadata.name:
            if not (obj.metadata.generate_name and (self._written or kind == "Pod")):
                raise InvalidObject("metadata.name: it has no name")
            obj = self._named(obj)
        self.keep(obj)

    def _named(self, obj: Any) -> Any:
        """The object with a name of its own, with a number where the API server appends letters to `generateName`."""
        own, found = obj.metadata, self._found.get(type(obj), {})
        numbers = self._numbers.setdefault((type(obj), own.namespace, own.generate_name), itertools.count())
        while True:
            named = structs.replace(obj, metadata=structs.replace(own, name=f"{own.generate_name}{next(numbers)}"))
            if objects.key_of(named) not in found:
                return named

    def _shared(self, obj: objects.AnyObject) -> objects.AnyObject:
        if isinstance(obj, objects.Pod):
            return self._sharing.pod(obj)
        return self._sharing.node(obj) if isinstance(obj, objects.Node) else obj

    def keep(self, obj: objects.AnyObject) -> None:
        """Add an object, which shares its parts with those before it."""
        obj = self._shared(obj)
        found = self._found.setdefault(type(obj), {})
        key = objects.key_of(obj)
        if key in found:
            self._replaced += 1
            if self._written or found[key] != obj:
                self._differing.setdefault(objects.kind_of(obj), {})[key] = None
        found[key] = obj

    def _add_metrics(self, table: documents.Item, label: str) -> None:
        try:
            for name, by_node in snapshot_file.read_samples(table).items():
                self._metrics.setdefault(name, {}).update(by_node)
        except InvalidObject as error:
            self._refuse(f"{label}: metrics", str(error))

    def _add_capture(self, word: documents.Item, label: str) -> None:
        try:
            found = snapshot_file.read_capture(word)
        except InvalidObject as error:
            self._refuse(f"{label}: capture", str(error))
            return
        self.note(found, label)

    def note(self, found: snapshot_file.Capture, label: str) -> None:
        """Add the time at which a file was captured, and the objects that were left out."""
        self._taken_at = max(filter(None, (self._taken_at, found.seconds)), default=None)
        self._skipped += [f"{label}: {sentence}" for sentence in found.not_read]

    def _refuse(self, where: str, reasons: str) -> None:
        """Report the reasons, one per line: raise InvalidObject, keep them for `finish`, or add one sentence to `skipped`."""
        if self._skip_invalid:
            self._skipped.append(f"{where}: {'; '.join(reasons.splitlines())}")
            return
        sentences = [f"{where}: {reason}" for reason in reasons.splitlines()]
        if not self._written:
            raise InvalidObject("\n".join(sentences))
        self._refused += sentences


def _several_versions(keys: Mapping[str, Collection[str]]) -> Iterator[str]:
    """A sentence for each kind of which objects are there more than once; `keys` are their names by kind."""
    for kind, names in keys.items():
        first, more = next(iter(names)), len(names) - 1
        which = f"{first} is" if not more else f"{first} and {more:,} more are"
        yield f"{kind} {which} there more than once; the last one counts"


def _require_template(plain: Any, kind: str) -> None:
    """Raise InvalidObject for a workload that does not describe its pods."""
    path, found = _TEMPLATE.get(kind, ""), plain
    for name in filter(None, path.split(".")):
        found = found.get(name) if isinstance(found, dict) else None
    if not found:
        raise InvalidObject(f"{path}: it is missing; it has the metadata and spec of the pods")


def _implied_kind(document: documents.Document) -> tuple[str, str]:
    """(apiVersion, kind) of items without their own, as in a PodList from the API server."""
    return document.api_version, document.kind.removesuffix("List") if document.is_list else document.kind


def _header(item: documents.Item) -> tuple[str, str]:
    if isinstance(item, msgspec.Raw):
        head = _HEAD.match(memoryview(item)[:256])
        if head is not None:
            return head[1].decode(errors="replace"), head[2].decode(errors="replace")
        item = decode.parse_json(item)
    if not isinstance(item, dict):
        raise InvalidObject("it is not an object")
    api_version, kind = item.get("apiVersion") or "", item.get("kind") or ""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise InvalidObject("apiVersion and kind have to be text")
    return api_version, kind


def _shown_name(item: documents.Item) -> str:
    """` (Pod default/web-1)` as far as it can be made out."""
    try:
        plain: Any = decode.parse_json(item) if isinstance(item, msgspec.Raw) else item
    except InvalidObject:
        return ""
    if not isinstance(plain, dict):
        return ""
    metadata = plain.get("metadata")
    names = [metadata.get("namespace"), metadata.get("name")] if isinstance(metadata, dict) else []
    parts = [plain.get("kind"), "/".join(name for name in names if name and isinstance(name, str))]
    shown = " ".join(part for part in parts if part and isinstance(part, str))
    return f" ({shown})" if shown else ""

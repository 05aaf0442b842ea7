"""The gRPC service for cluster-autoscaler (`--expander=grpc`): selects the node group to grow.

cluster-autoscaler waits for five seconds and then continues without a response, so a fast response is better than a perfect one. A request
that cannot be read is refused; its group of nodes is then chosen by the other expanders.

Answers are computed one at a time, in slices of the event loop. What was begun ends when the client cancels its call, or its deadline has
passed: nobody waits for the answer any more.

Messages are those of `expander.proto`; Kubernetes objects in them become manifests. The classes are made from that file when they are
needed first: no generated code, and no compiler of protocol buffers. It uses a small part of the format: messages with optional, repeated
and map fields of scalars and messages.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from msgspec import Struct

from wharfinger.errors import InvalidObject, UsageError, printable
from wharfinger.event_loop import in_slices
from wharfinger.framework.chain import Chain
from wharfinger.framework.ports import Clock
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.what_if.node_groups import NodeGroup, RankedGroup, ranked_groups
from wharfinger.what_if.rebalance.watched_cluster import WatchedCluster

SERVICE = "grpcplugin.Expander"
MAX_BYTES = 64 << 20  # of a request: thousands of pods for each of a dozen groups
MAX_GROUPS = 1_000
MAX_CALLS = 16
"""Calls at a time, further ones are refused at once: each keeps its request in memory."""


T = TypeVar("T", bound=objects.KubeStruct)
Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
    "bool": Field.TYPE_BOOL,
    "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64,
}
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:(optional|repeated) )?(?:map<(\w+), (\w+)>|(\w+)) (\w+) = (\d+);$", re.MULTILINE)
_INLINE = frozenset({"volumeSource"})  # messages whose fields are directly in the JSON of the enclosing message


class Option(Struct, frozen=True, kw_only=True):
    """A group of nodes that could grow: manifests of one of its nodes and of the pods that `count` of them would help."""

    name: str
    count: int
    node: Mapping[str, Any] | None
    pods: tuple[Mapping[str, Any], ...]


class Certificate(Struct, frozen=True, kw_only=True):
    """The certificate of the server and its private key, PEM."""

    chain: bytes
    key: bytes


class Expander:
    """Answers for one chain on a cluster that is watched; `report` gets a line for every group of every answer.

    `answered` is called for each request with its result (of `telemetry.metrics.ANSWERS`) and the seconds that it took.
    """

    def __init__(
        self,
        chain: Chain,
        live: WatchedCluster,
        clock: Clock,
        report: Callable[[str], None],
        answered: Callable[[str, float], None] = lambda _result, _seconds: None,
    ) -> None:
        self._chain = chain
        self._live = live
        self._clock = clock
        self._turn = asyncio.Lock()
        self._tell = report
        self._answered = answered

    def _report(self, sentence: str) -> None:
        self._tell(printable(sentence))

    async def best(self, request: bytes) -> bytes:
        """The answer to a BestOptionsRequest: the best group, and why. InvalidObject for a request that cannot be read."""
        async with self._turn:
            with self._live.held(), closing(self._best(request)) as steps:
                return await in_slices(steps, self._clock, pause=0.0)

    def _best(self, request: bytes) -> Generator[None, None, bytes]:
        """A generator of steps that returns the answer; the state of the cluster must not change meanwhile."""
        options = yield from _options(request)
        groups: list[NodeGroup] = []
        for option in options:
            if option.node is not None:
                groups += [(yield from _group(option, self._live.state))]
        ranked = yield from ranked_groups(self._chain, self._live.state, groups)
        for option in options:
            if option.node is None:
                self._report(f"{option.name}: left out, as the request has no node of it")
        if not ranked:
            raise InvalidObject("no option of the request has a node")
        for place, found in enumerate(ranked):
            self._report(f"{found.name}: {found}{_chosen(ranked) if not place else ''}")
        counts = {option.name: option.count for option in options}
        return _best_option(ranked[0].name, counts[ranked[0].name], f"wharfinger: {ranked[0]}")

    async def serve(self, address: str, certificate: Certificate | None) -> Any:
        """The running server. UsageError if it cannot listen there."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_BYTES)], maximum_concurrent_rpcs=MAX_CALLS)
        handler = grpc.unary_unary_rpc_method_handler(self._answer)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"BestOptions": handler})])
        try:
            if certificate is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, grpc.ssl_server_credentials([(certificate.key, certificate.chain)]))
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"--listen {address}: {error}") from error
        await server.start()
        return server

    async def _answer(self, request: bytes, context: Any) -> bytes:
        began, result, refusal = time.monotonic(), "failed", ""
        try:
            answer = await self.best(request)
            result = "answered"
        except InvalidObject as error:
            result, refusal = "refused", str(error)
        except asyncio.CancelledError:
            result = "cancelled"
            self._report("a request was cancelled: its client does not wait any more")
            raise
        finally:
            self._answered(result, time.monotonic() - began)  # before the answer is sent, so that a client that has it finds it counted
        if refusal:
            self._report(f"a request was refused: {refusal}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)
        return answer


def _options(request: bytes) -> Generator[None, None, Sequence[Option]]:
    """A generator of steps that returns the options of a request; InvalidObject if it cannot be read."""
    try:
        return (yield from _decoded(request))
    except (ValueError, OverflowError, OSError) as error:  # OSError for a time beyond what the machine knows
        raise InvalidObject(f"the request cannot be read: {error}") from error


def _group(option: Option, state: ClusterState) -> Generator[None, None, NodeGroup]:
    """A generator of steps that returns the group of an option, without the pods that have got a node meanwhile.

    InvalidObject for an object that cannot be read, and for a pod that is there twice.
    """
    node = _converted(option, dict(option.node or {}), objects.Node)
    pods: dict[str, PodView] = {}
    for manifest_of_pod in option.pods:
        pod = PodView(_converted(option, _pending(manifest_of_pod), objects.Pod))
        if pod.uid in pods:
            raise InvalidObject(f"group {option.name}, Pod {pod.key}: it is there twice")
        pods[pod.uid] = pod
        yield
    waiting = tuple(pod for pod in pods.values() if not state.is_placed(pod.uid))
    limit = max(1, len(waiting))  # further nodes would be empty
    return NodeGroup(name=option.name, node=node, count=min(max(1, option.count), limit), pods=waiting)


def _converted(option: Option, found: Mapping[str, Any], kind: type[T]) -> T:
    """An object of an option. InvalidObject with the names of both if it cannot be read."""
    try:
        return decode.convert(found, kind)
    except InvalidObject as error:
        name = found.get("metadata", {}).get("name", "")
        raise InvalidObject(f"group {option.name}, {kind.__name__} {name}: {error}") from None


def _pending(pod: Any) -> dict[str, Any]:
    """The pod without a node: cluster-autoscaler may have put one there while it simulated."""
    return {**pod, "spec": {**pod.get("spec", {}), "nodeName": ""}}


def _chosen(ranked: Sequence[RankedGroup]) -> str:
    """The reason why the first group was chosen."""
    first, others = ranked[0], ranked[1:]
    if not others:
        return "; chosen: the only one"
    second = others[0]
    for what, better in (
        ("more pods placed", first.placed > second.placed),
        ("the policies prefer its nodes", first.points > second.points),
        ("fewer nodes", first.nodes < second.nodes),
        ("less left free", first.free < second.free),
    ):
        if better:
            return f"; chosen: {what}"
    return "; chosen: first by name of equal ones"


def _decoded(request: bytes) -> Generator[None, None, tuple[Option, ...]]:
    """A generator of steps that returns the options of a BestOptionsRequest; `node` is None if it has no node for the group.

    ValueError if it cannot be read, has more than `MAX_GROUPS` groups, or one group twice.
    """
    read = _read("BestOptionsRequest", request)
    names = Counter(option.nodeGroupId for option in read.options)
    if len(read.options) > MAX_GROUPS:
        raise ValueError(f"it has {len(read.options):,} groups; at most {MAX_GROUPS:,} are compared")
    if names and (most := names.most_common(1)[0])[1] > 1:
        raise ValueError(f"it has group {most[0]} {most[1]} times")
    yield
    nodes = {name: manifest(node) for name, node in read.nodeMap.items()}
    nodes |= {name: manifest(_read("Node", content)) for name, content in read.nodeBytesMap.items()}
    options = []
    for option in read.options:
        pods = []
        for pod in _pods(option):
            pods.append(pod)
            yield
        options.append(Option(name=option.nodeGroupId, count=option.nodeCount, node=nodes.get(option.nodeGroupId), pods=tuple(pods)))
    return tuple(options)


def _pods(option: Any) -> Iterator[Mapping[str, Any]]:
    """The pods of an option as manifests; a server of Kubernetes 1.35 or later sends them as bytes."""
    if option.podBytes:
        return (manifest(_read("Pod", content)) for content in option.podBytes)
    return map(manifest, option.pod)


def _best_option(name: str, count: int, debug: str) -> bytes:
    """The BestOptionsResponse with one option."""
    response: Any = message_class("BestOptionsResponse")()
    response.options.add(nodeGroupId=name, nodeCount=count, debug=debug)
    content: bytes = response.SerializeToString()
    return content


def _read(kind: str, content: bytes) -> Any:
    try:
        return message_class(kind).FromString(content)
    except DecodeError as error:
        raise ValueError(f"{kind}: not a message of that kind") from error


def manifest(message: Message) -> dict[str, Any]:
    """A Kubernetes object as JSON has it: quantities and times as text, a number or a text for IntOrString."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in _INLINE:
            found |= manifest(value)
        else:
            found[field.name] = _plain(field, value)
    return found


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        of_message = field.message_type.fields_by_name["value"].message_type is not None
        return {key: _object(each) if of_message else each for key, each in value.items()}
    return [_object(each) for each in value] if field.is_repeated else _object(value)


def _object(message: Any) -> Any:
    kind = message.DESCRIPTOR.name
    if kind == "Quantity":
        return message.string
    if kind in {"Time", "MicroTime"}:
        return datetime.fromtimestamp(message.seconds, UTC).isoformat()
    if kind == "IntOrString":
        return message.strVal if message.type else message.intVal
    return manifest(message)


@cache
def message_class(kind: str) -> type[Message]:
    """The class of a message."""
    found: type[Message] = message_factory.GetMessageClass(_pool().FindMessageTypeByName(kind))
    return found


@cache
def _pool() -> Any:
    """The descriptors of all messages of `expander.proto`."""
    text = Path(__file__).with_name("expander.proto").read_text("utf-8")
    file = descriptor_pb2.FileDescriptorProto(name="expander.proto", syntax="proto2")
    for kind, body in _MESSAGE.findall(text):
        described = file.message_type.add(name=kind)
        for label, key, value, single, name, number in _FIELD.findall(body):
            of = f"{kind}.{_entry(described, name, key, value)}" if key else single
            _field(described, name, int(number), of, repeated=bool(key) or label == "repeated")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _entry(described: Any, name: str, key: str, value: str) -> str:
    """The name of the message of a map's entries, which is added to the message that has the map."""
    entry = described.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
    entry.options.map_entry = True
    _field(entry, "key", 1, key, repeated=False)
    _field(entry, "value", 2, value, repeated=False)
    return str(entry.name)


def _field(described: Any, name: str, number: int, of: str, *, repeated: bool) -> None:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    field = described.field.add(name=name, number=number, label=label, json_name=name)
    if of in SCALARS:
        field.type = SCALARS[of]
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".{of}"

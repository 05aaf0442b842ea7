"""The gRPC service that cluster-autoscaler asks (`--expander=grpc`): which of several groups of nodes should grow.

cluster-autoscaler waits for five seconds and then goes on without an answer, so an answer is always better than a perfect one. A request
that cannot be read is refused; its group of nodes is then chosen by the other expanders.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.framework.chain import Chain
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.reading import decode
from wharfinger.model.state.cluster_state import ClusterState
from wharfinger.web.expander import messages
from wharfinger.what_if.node_groups import NodeGroup, RankedGroup, ranked_groups

SERVICE = "grpcplugin.Expander"
MAX_BYTES = 64 << 20  # of a request: thousands of pods for each of a dozen groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The certificate of the server and its private key, PEM."""

    chain: bytes
    key: bytes


class Expander:
    """Answers for one chain on a state that others keep up to date; `report` gets a line for every group of every answer.

    `answered` is called for each request with its result (of `telemetry.metrics.ANSWERS`) and the seconds that it took.
    """

    def __init__(
        self,
        chain: Chain,
        state: ClusterState,
        report: Callable[[str], None],
        answered: Callable[[str, float], None] = lambda _result, _seconds: None,
    ) -> None:
        self._chain = chain
        self._state = state
        self._report = report
        self._answered = answered

    def best(self, request: bytes) -> bytes:
        """The answer to a BestOptionsRequest: the best group, and why. InvalidObject for a request that cannot be read."""
        options = _options(request)
        ranked = ranked_groups(self._chain, self._state, [_group(option) for option in options if option.node is not None])
        for option in options:
            if option.node is None:
                self._report(f"{option.name}: left out, as the request has no node of it")
        if not ranked:
            raise InvalidObject("no option of the request has a node")
        for place, found in enumerate(ranked):
            self._report(f"{found.name}: {found}{_chosen(ranked) if not place else ''}")
        counts = {option.name: option.count for option in options}
        return messages.best_option(ranked[0].name, counts[ranked[0].name], f"wharfinger: {ranked[0]}")

    async def serve(self, address: str, certificate: Certificate | None) -> Any:
        """The running server. UsageError if it cannot listen there."""
        server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_BYTES)])
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
        began, result = time.monotonic(), "failed"
        try:
            answer = self.best(request)
        except InvalidObject as error:
            result = "refused"
            self._report(f"a request was refused: {error}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise  # abort does not return
        else:
            result = "answered"
            return answer
        finally:
            self._answered(result, time.monotonic() - began)


def _options(request: bytes) -> Sequence[messages.Option]:
    """The options of a request; InvalidObject if it cannot be read."""
    try:
        return messages.options_of(request)
    except (ValueError, OverflowError) as error:
        raise InvalidObject(f"the request cannot be read: {error}") from error


def _group(option: messages.Option) -> NodeGroup:
    node = decode.convert(dict(option.node or {}), objects.Node)
    pods = [decode.convert(_pending(pod), objects.Pod) for pod in option.pods]
    return NodeGroup(name=option.name, node=node, count=max(1, option.count), pods=tuple(map(PodView, pods)))


def _pending(pod: Any) -> dict[str, Any]:
    """The pod without a node: cluster-autoscaler may have put one there while it simulated."""
    return {**pod, "spec": {**pod.get("spec", {}), "nodeName": ""}}


def _chosen(ranked: Sequence[RankedGroup]) -> str:
    """What decided for the first group."""
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

"""`wharf expander`: says to cluster-autoscaler which group of nodes the policies want to grow."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli import chosen_policies, live_cluster, options, streams
from wharfinger.errors import UsageError
from wharfinger.framework.chain import Chain, assemble

if TYPE_CHECKING:
    from wharfinger.web.expander.service import Certificate

LISTEN = "127.0.0.1:8086"


def command(  # noqa: PLR0913, PLR0917 — one parameter per flag
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where cluster-autoscaler reaches it.")] = LISTEN,
    certificate: Annotated[
        str | None,
        typer.Option("--certificate", metavar="FILE", help="The certificate of the server, which cluster-autoscaler is given too."),
    ] = None,
    private_key: Annotated[str | None, typer.Option("--private-key", metavar="FILE", help="The private key of --certificate.")] = None,
) -> int:
    """Tell cluster-autoscaler which group of nodes to grow (--expander=grpc). Changes nothing anywhere."""
    proof = _certificate(listen, certificate, private_key)
    policies = chosen_policies.compiled(policy, param)
    if measured := [found.name for found in policies if found.policy.metrics]:
        streams.warn([f"{', '.join(measured)}: metrics are not read here; what holds `on missing` holds"])
    chain = assemble(policies, chosen_policies.chosen(config, scheduler_name))
    with live_cluster.ended_tidily(), contextlib.suppress(KeyboardInterrupt):  # a server that is stopped has not failed
        asyncio.run(_serve(chain, kubeconfig, context, listen, proof))
    return 0


def _certificate(listen: str, certificate: str | None, private_key: str | None) -> Certificate | None:
    """The certificate of the flags; None if there is none. UsageError if one is missing, or the extra."""
    try:
        from wharfinger.web.expander.service import Certificate  # noqa: PLC0415 — an optional library
    except ImportError as error:
        raise UsageError(f"wharf expander needs {error.name}: pip install 'wharfinger[autoscaler]'") from error
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise UsageError(f"--listen {listen}: expected HOST:PORT")
    if (certificate is None) != (private_key is None):
        raise UsageError("--certificate and --private-key belong together; give both")
    if certificate is None or private_key is None:
        if not _local(host):
            raise UsageError(f"--listen {listen} can be reached from other machines, so it needs --certificate and --private-key")
        return None
    return Certificate(chain=Path(certificate).read_bytes(), key=Path(private_key).read_bytes())


def _local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _serve(chain: Chain, kubeconfig: str | None, context: str | None, listen: str, proof: Certificate | None) -> None:
    from wharfinger.web.expander.service import Expander  # noqa: PLC0415 — as above

    async with live_cluster.watched(kubeconfig, context, "wharf-expander") as (live, _connection, _clock):
        server = await Expander(chain, live.state, streams.complain).serve(listen, proof)
        streams.complain(f"answers cluster-autoscaler at {listen}")
        try:
            await server.wait_for_termination()
        finally:
            await server.stop(grace=None)

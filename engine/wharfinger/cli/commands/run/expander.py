"""`wharf expander`: selects for cluster-autoscaler the node group to grow, by the policies."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from prometheus_client import CollectorRegistry

import wharfinger
from wharfinger.cli import chosen_policies, live_cluster, options, streams
from wharfinger.errors import UsageError, missing_extra
from wharfinger.framework.chain import Chain, assemble
from wharfinger.telemetry.declarations import Metric
from wharfinger.telemetry.metrics import Metrics, answer_timer
from wharfinger.web.app import Checks, application
from wharfinger.web.server import Server, ServingCertificate

if TYPE_CHECKING:
    from wharfinger.web.expander import Certificate

LISTEN = "127.0.0.1:8086"
MAX_PORT = 65_535


def wharf_expander(  # noqa: PLR0913, PLR0917 — one parameter per flag
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    policy: options.Policies = None,
    param: options.Params = None,
    config: options.Config = None,
    scheduler_name: options.SchedulerName = None,
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="The address for cluster-autoscaler.")] = LISTEN,
    certificate: Annotated[
        str | None,
        typer.Option("--certificate", metavar="FILE", help="The certificate of the server; cluster-autoscaler needs it too."),
    ] = None,
    private_key: Annotated[str | None, typer.Option("--private-key", metavar="FILE", help="The private key of --certificate.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="The address of /metrics, /livez and /readyz over HTTP; default: none."),
    ] = None,
) -> int:
    """Choose node groups for cluster-autoscaler (--expander=grpc) by the policies. Writes nothing to the cluster.

    $ wharf expander --policy policies/ --listen 127.0.0.1:8086
    """
    proof = _certificate(listen, certificate, private_key)
    observed_at = None if metrics is None else _address("--metrics", metrics)
    policies = chosen_policies.compiled(policy, param)
    if measured := [found.name for found in policies if found.policy.metrics]:
        streams.warn([f"{', '.join(measured)}: metrics are not read here; the values are missing (`on missing`)"])
    chain = assemble(policies, chosen_policies.chosen(config, scheduler_name))
    with live_cluster.signals_as_interrupt(), contextlib.suppress(KeyboardInterrupt):  # a server that is stopped has not failed
        asyncio.run(_serve(chain, kubeconfig, context, listen, proof, observed_at))
    return 0


def _address(flag: str, text: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT; UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > MAX_PORT:
        raise UsageError(f"{flag} {text}: expected HOST:PORT")
    return host.strip("[]"), int(port)


def _certificate(listen: str, certificate: str | None, private_key: str | None) -> Certificate | None:
    """The certificate of the flags; None without flags. UsageError if one of the two flags, or the extra, is missing."""
    try:
        from wharfinger.web.expander import Certificate  # noqa: PLC0415 — an optional library
    except ImportError as error:
        raise missing_extra(f"`wharf expander` needs {error.name}", "autoscaler") from error
    host, _ = _address("--listen", listen)
    if (certificate is None) != (private_key is None):
        raise UsageError("--certificate and --private-key belong together; give both")
    if certificate is None or private_key is None:
        if not _local(host):
            raise UsageError(f"--listen {listen} can be reached from other machines, so it needs --certificate and --private-key")
        return None
    try:
        ServingCertificate(certificate, private_key).reload()
    except ssl.SSLError as error:
        raise UsageError(f"--certificate {error.strerror}") from error
    return Certificate(chain=Path(certificate).read_bytes(), key=Path(private_key).read_bytes())


def _local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(  # noqa: PLR0913, PLR0917 — the flags that are passed on
    chain: Chain, kubeconfig: str | None, context: str | None, listen: str, proof: Certificate | None, observed_at: tuple[str, int] | None
) -> None:
    from wharfinger.web.expander import Expander  # noqa: PLC0415 — as above

    metrics = Metrics(CollectorRegistry())
    metrics.read(Metric.BUILD, lambda: {(wharfinger.__version__,): 1})
    async with contextlib.AsyncExitStack() as opened:
        live, _, clock = await opened.enter_async_context(live_cluster.watched(kubeconfig, context, "wharf-expander"))
        if observed_at is not None:
            observed = await opened.enter_async_context(Server(application(Checks(), metrics.registry), *observed_at))
            streams.print_stderr(f"serves metrics at {observed.url}/metrics")
        server = await Expander(chain, live, clock, streams.print_stderr, answer_timer(metrics)).serve(listen, proof)
        streams.print_stderr(f"answers cluster-autoscaler at {listen}")
        try:
            await server.wait_for_termination()
        finally:
            await server.stop(grace=None)

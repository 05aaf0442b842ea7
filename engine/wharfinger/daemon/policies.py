"""The policies of a running process: from the sources in the settings to the policy store, and from there to the scheduler.

Files are read before anything is connected to. A file that has never been valid ends the process with an error; one that was valid before
starts with its last good version (`state_directory`). ConfigMaps and custom resources are read when there is a connection; until then
nothing is decided, and an invalid text there is left out and reported.

Rights of policies that belong to a namespace, and the libraries that they may import, come from the settings too; libraries are read once,
at the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import basename

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy
from wharfinger.daemon.settings import Profile, Settings
from wharfinger.emit import Emit, Subscribers
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.framework import kubernetes_profiles
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.policy_status import Mode, PolicySource, PolicyStatus
from wharfinger.framework.ports import Clock
from wharfinger.kube import api_errors
from wharfinger.kube.connection import Connection
from wharfinger.kube.policy_configmap import ConfigMapSource
from wharfinger.language import load
from wharfinger.language.files import NO_POLICIES_MARKER, SUFFIX, read_source
from wharfinger.language.load import policy_files
from wharfinger.language.parse.parser import parse
from wharfinger.language.report.diagnostics import Diagnostics, PolicyError
from wharfinger.language.semantics import typed
from wharfinger.language.semantics.authority import TenantPolicies, TenantRights
from wharfinger.policies import candidate
from wharfinger.policies.active import ActivePolicies
from wharfinger.policies.candidate import Sample, sample_of
from wharfinger.policies.folder import FolderSource
from wharfinger.policies.last_known_good import LastKnownGood
from wharfinger.policies.ledger import ConfiguredSource
from wharfinger.policies.shadow import Shadows
from wharfinger.policies.store import PolicyStore
from wharfinger.scheduler.events import Decided
from wharfinger.scheduler.scheduler import Scheduler
from wharfinger.signals.query import SignalLimits
from wharfinger.signals.refreshing import Kind, SignalFailed, Signals
from wharfinger.signals.sources import PATH, ReadNodeMetrics, sources_of

Note = Callable[[str], None]


def chains_of(settings: Settings, note: Note) -> Mapping[str, Chain]:
    """The chain of each scheduler name. PolicyError with every finding, or UsageError; warnings go to `note`."""
    return {profile.scheduler_name: assemble(compiled(profile), chain_config(profile, note)) for profile in settings.profiles}


def compiled(profile: Profile) -> tuple[CompiledPolicy, ...]:
    """The policies of a profile with its params; PolicyError with every finding, UsageError for a path that does not exist."""
    for path in profile.policies:
        if fault := _fault_of(path):
            raise UsageError(f"profile {profile.scheduler_name}: {path}: {fault}")
    if not profile.policies:
        return candidate.compile_all((), profile.params)
    found, diagnostics = load.load_policies(list(profile.policies), CATALOGUE)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    return candidate.compile_all([policy for policy in found if policy is not None], profile.params)


def _fault_of(path: str) -> str:
    """The reason why a path cannot be a file or folder of policies, or "". Opens nothing, because a pipe would wait for its writer."""
    found = Path(path)
    if not found.exists():
        return "no such file or folder"
    if found.is_dir():
        empty = not (found / NO_POLICIES_MARKER).exists() and not any(found.rglob(f"*{SUFFIX}"))
        return f"no *{SUFFIX} files in this folder; if that is intended, add a file {NO_POLICIES_MARKER}" if empty else ""
    if not found.is_file():
        return "not a regular file, so changes to it cannot be seen"
    return "" if path.endswith(SUFFIX) else f"only files whose names end in {SUFFIX} are read; rename it"


def chain_config(profile: Profile, note: Note) -> ChainConfig | None:
    """The settings of the built-in plugins for a profile: in the file, the profile of the same name or else its only one."""
    path = profile.kube_scheduler_configuration
    if path is None:
        return None
    found = kubernetes_profiles.profiles_of(path)
    for remark in found.notes:
        note(f"{path}: {remark}")
    name = profile.scheduler_name if profile.scheduler_name in found.settings else None
    try:
        return found.of(name)
    except UsageError as error:
        raise UsageError(f"{path}: {error}; profile {profile.scheduler_name} needs one of its own name there") from error


MAX_LIBRARY_BYTES = 65_536
"""Of all libraries together: they are handed to the process that checks policies for the webhook as an argument of its command."""


def rights_of(settings: Settings) -> TenantRights:
    """The rights of policies of namespaces; UsageError or PolicyError for a library that cannot be read or is no library."""
    texts: dict[str, str] = {}
    for path in policy_files(settings.tenant_libraries):
        name = basename(Path(path).as_posix())
        if name in texts:
            raise UsageError(f"tenantLibraries: there are two files called {name}; policies import them by that name")
        texts[name] = _library(path)
    if sum(len(text.encode()) for text in texts.values()) > MAX_LIBRARY_BYTES:
        raise UsageError(f"tenantLibraries: together they have more than {MAX_LIBRARY_BYTES:,} bytes")
    return TenantRights(TenantPolicies(settings.tenant_policies), frozenset(settings.tenant_servers), tuple(sorted(texts.items())))


def _library(path: str) -> str:
    diagnostics = Diagnostics()
    source = read_source(path, diagnostics)
    file = None if source is None else parse(source, diagnostics)
    if diagnostics.has_errors:
        raise PolicyError(diagnostics)
    if source is None or file is None or file.policy is not None:
        raise UsageError(f"tenantLibraries: {path} is a policy, not a library; take its `policy` line and rules out")
    return source.text


class PoliciesRefused(WharfingerError):
    """Policies that never were valid, at the start."""


async def policies_of(  # noqa: PLR0913 — collaborators, passed in by the composition
    settings: Settings,
    clock: Clock,
    emit: Emit,
    note: Note,
    remote: Sequence[PolicySource] = (),
    *,
    resources: PolicySource | None = None,
    rights: TenantRights | None = None,
) -> PolicyStore:
    """The store, with the policies of files in it. Policies of `remote` sources decide in every profile, once they have been read.

    So do policies of `resources`, which have their own values of params and do not get those of the profiles. `rights` are those of
    policies that belong to a namespace.

    PolicyError, PoliciesRefused or UsageError for files without any valid version.
    """
    folders = [(profile, source) for profile in settings.profiles for source in _folders(profile, len(settings.profiles) > 1)]
    everywhere = frozenset(profile.scheduler_name for profile in settings.profiles)
    params = {name: value for profile in settings.profiles for name, value in profile.params.items()}
    configured = [
        *(
            ConfiguredSource(source=source, profiles=frozenset({profile.scheduler_name}), params=profile.params)
            for profile, source in folders
        ),
        *(ConfiguredSource(source=source, profiles=everywhere, params=params) for source in remote),
        *([] if resources is None else [ConfiguredSource(source=resources, profiles=everywhere)]),
    ]
    chains = {profile.scheduler_name: assemble((), chain_config(profile, note)) for profile in settings.profiles}
    kept = None if settings.state_directory is None else LastKnownGood(Path(settings.state_directory))
    store = PolicyStore(configured, chains, clock, emit=emit, kept=kept, rights=rights)
    with store.emit_later():  # for policies that end the process, only the reason is logged
        for _, source in folders:
            await source.offer(store)
        await store.build_offers()
        _refuse(settings, store, [source.name for _, source in folders], strict=not remote)
    for sentence in store.record_errors:
        note(sentence)
    return store


def remote_sources(settings: Settings, connection: Connection, clock: Clock, emit: Emit) -> list[PolicySource]:
    """The sources that are read through the API server."""
    found = settings.policy_config_map
    return [] if found is None else [ConfigMapSource(found, connection, clock, emit)]


def _folders(profile: Profile, several: bool) -> Iterator[FolderSource]:
    prefix = f"{profile.scheduler_name}: " if several else ""
    for path in dict.fromkeys(profile.policies):
        yield FolderSource(path, name=f"{prefix}{path}")
    for path in dict.fromkeys(profile.shadow_policies):
        yield FolderSource(path, name=f"{prefix}{path} (shadow)", mode=Mode.SHADOW)


def _refuse(settings: Settings, store: PolicyStore, files: Sequence[str], *, strict: bool) -> None:
    """Raise for files that never were valid. Only if all policies are files is it known which params no policy has."""
    lost = [source for source in store.sources if source.name in store.unknown_sources & set(files)]
    refused = [status for status in store.statuses if status.source in files and status.state == "refused"]
    kept = any(status.kept for status in store.statuses) or any(source.lost for source in store.sources)
    if lost or refused or (strict and not kept):
        chains_of(settings, _drop_reported)  # has every finding, in the words of `wharf check`
    if refused:
        raise PoliciesRefused(_reports(refused))
    if lost:
        raise UsageError("; ".join(f"{source.name}: {source.lost}" for source in lost))


def _drop_reported(_note: str) -> None:
    """Drop a note that was already reported when the chain was assembled."""


def _reports(refused: Iterable[PolicyStatus]) -> str:
    return "policies were refused, and there are no former versions of them\n" + "\n".join(status.report.rstrip() for status in refused)


POLICIES = "Policies"
"""The kind that the scheduler waits for until every source of policies was read."""

Follow = Callable[[ActivePolicies], None]

_POLL_SECONDS = 0.2  # seconds between two looks whether the cluster is known


class _LiveScheduling:
    """The scheduler that follows a policy store, with shadow policies and signals, as an interface for the store."""

    def __init__(self, scheduler: Scheduler, shadows: Shadows, follow: Follow) -> None:
        self._scheduler = scheduler
        self._shadows = shadows
        self._follow = follow

    def adopt(self, active: ActivePolicies) -> None:
        """Decide with these policies from now on, compare their shadows, and ask for their metrics."""
        self._follow(active)
        self._scheduler.adopt(active.chains)
        self._shadows.adopt(active)

    def sample(self) -> Sample | None:
        """A part of the live cluster; None before the cluster is known."""
        if self._scheduler.missing_kinds - {POLICIES}:
            return None
        return sample_of(self._scheduler.state.snapshot(), (queued.pod for queued in self._scheduler.queue))

    @property
    def suspended(self) -> Mapping[tuple[str, str], object]:
        """The policies that are suspended, and why, by name and revision."""
        return self._scheduler.budget.suspended


def connect(
    store: PolicyStore, scheduler: Scheduler, clock: Clock, subscribers: Subscribers, follow: Follow = lambda _active: None
) -> Shadows:
    """Give the scheduler the policies of the store from now on; the shadow policies, which are compared with its decisions.

    `follow` is called with every set of policies before it decides.
    """
    shadows = Shadows(clock, budget=scheduler.settings.budget)
    subscribers.subscribe({Decided: lambda event: shadows.compare(event.profile, event.decision)})
    store.connect(_LiveScheduling(scheduler, shadows, follow))
    return shadows


async def notify_when_loaded(store: PolicyStore, scheduler: Scheduler, clock: Clock) -> None:
    """Notify the scheduler once every source of policies was read, and tries the policies once the cluster is known; never returns."""
    await store.all_sources_known.wait()
    scheduler.sink.synced(POLICIES)
    while scheduler.missing_kinds:
        await clock.sleep(_POLL_SECONDS)
    await store.keep_reviewing()


def signals_of(settings: Settings, connection: Connection, scheduler: Scheduler, clock: Clock, emit: Emit) -> Signals:
    """The signals of a process, without a policy yet."""
    servers = [server.server(name) for name, server in settings.prometheus.items()]
    signal_settings = settings.signals
    limits = SignalLimits(
        shortest_refresh=signal_settings.min_refresh, of_requester=signal_settings.queries_of_asker, of_all=signal_settings.queries
    )
    return Signals(sources_of(servers, node_metrics(connection)), scheduler.measurements, clock, emit, limits=limits)


async def measure(signals: Signals, nodes_known: Callable[[], Awaitable[None]]) -> None:
    """Query the metrics of policies once the nodes are known; never returns."""
    await nodes_known()
    await signals.run()


def policies_with_metrics(active: ActivePolicies) -> Iterator[typed.Policy]:
    """The policies that have metrics, each once; shadow policies are compared on the same samples."""
    shadow_chains = [chain for shadows in active.shadows.values() for chain in shadows.values()]
    policies = {policy.revision: policy.policy for chain in (*active.chains.values(), *shadow_chains) for policy in chain.policies}
    return (policy for policy in policies.values() if policy.metrics)


def node_metrics(connection: Connection) -> ReadNodeMetrics:
    """A function that reads the Metrics API of a cluster."""

    async def read() -> bytes:
        try:
            return await connection.request("GET", PATH)
        except (api_errors.Unauthorized, api_errors.Forbidden) as error:
            raise SignalFailed(Kind.CREDENTIALS, str(error)) from error
        except api_errors.NotFound as error:
            raise SignalFailed(Kind.SETTINGS, "the cluster has no Metrics API; it takes a metrics-server") from error
        except api_errors.Unreachable as error:
            raise SignalFailed(Kind.UNREACHABLE, str(error)) from error
        except api_errors.ApiError as error:
            raise SignalFailed(Kind.SERVER, str(error)) from error

    return read

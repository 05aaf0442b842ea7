"""The policies of a running process: from the places that the settings name to the chains that decide.

What files say is known before anything is connected to, and a file that was never good ends the process there: whoever starts it is
watching. One that has been good before starts with what it was (`state_directory`). ConfigMaps and resources are read when there is a
connection; until then nothing is decided, and a text there that was never good is left out, loudly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from wharfinger.daemon.chains import Note, chain_config, chains_of
from wharfinger.daemon.settings import Profile, Settings
from wharfinger.errors import UsageError, WharfingerError
from wharfinger.framework.chain import assemble
from wharfinger.framework.policy_status import Mode, PolicyObserver, PolicySource, PolicyStatus
from wharfinger.framework.ports import Clock
from wharfinger.kube.connection import Connection
from wharfinger.kube.policy_configmap import ConfigMapSource
from wharfinger.kube.reflector import Report
from wharfinger.language.authority import TenantRights
from wharfinger.runtime.policy_store.folder_source import FolderSource
from wharfinger.runtime.policy_store.last_known_good import LastKnownGood
from wharfinger.runtime.policy_store.ledger import Supply
from wharfinger.runtime.policy_store.store import PolicyStore


class PoliciesRefused(WharfingerError):
    """Policies that never were good, at the start."""


async def policies_of(  # noqa: PLR0913 — what the policies come from, and who is told
    settings: Settings,
    clock: Clock,
    observer: PolicyObserver,
    note: Note,
    remote: Sequence[PolicySource] = (),
    *,
    resources: PolicySource | None = None,
    rights: TenantRights | None = None,
) -> PolicyStore:
    """The store, with the policies of files in it; `remote` sources decide in every profile, once they have spoken.

    So do `resources`, whose policies bring their own values of params and do not get those of the profiles. `rights` are those of policies
    that belong to a namespace.

    PolicyError, PoliciesRefused or UsageError for files that never were good.
    """
    folders = [(profile, source) for profile in settings.profiles for source in _folders(profile, len(settings.profiles) > 1)]
    everywhere = frozenset(profile.scheduler_name for profile in settings.profiles)
    params = {name: value for profile in settings.profiles for name, value in profile.params.items()}
    supplies = [
        *(Supply(source=source, profiles=frozenset({profile.scheduler_name}), params=profile.params) for profile, source in folders),
        *(Supply(source=source, profiles=everywhere, params=params) for source in remote),
        *([] if resources is None else [Supply(source=resources, profiles=everywhere)]),
    ]
    chains = {profile.scheduler_name: assemble((), chain_config(profile, note)) for profile in settings.profiles}
    kept = None if settings.state_directory is None else LastKnownGood(Path(settings.state_directory))
    store = PolicyStore(supplies, chains, clock, observer=observer, kept=kept, rights=rights)
    with store.untold():  # of policies that end the process nothing is said but why
        for _, source in folders:
            await source.tell(store)
        await store.settle()
        _refuse(settings, store, [source.name for _, source in folders], strict=not remote)
    for sentence in store.troubles:
        note(sentence)
    return store


def remote_sources(settings: Settings, connection: Connection, clock: Clock, report: Report) -> list[PolicySource]:
    """The sources that are read through the API server."""
    found = settings.policy_config_map
    return [] if found is None else [ConfigMapSource(found, connection, clock, report)]


def _folders(profile: Profile, several: bool) -> Iterator[FolderSource]:
    prefix = f"{profile.scheduler_name}: " if several else ""
    for path in dict.fromkeys(profile.policies):
        yield FolderSource(path, name=f"{prefix}{path}")
    for path in dict.fromkeys(profile.shadow_policies):
        yield FolderSource(path, name=f"{prefix}{path} (shadow)", mode=Mode.SHADOW)


def _refuse(settings: Settings, store: PolicyStore, files: Sequence[str], *, strict: bool) -> None:
    """None; raises for files that never were good. Only where all policies are files is it known which params nobody has."""
    lost = [source for source in store.sources if source.name in store.unheard & set(files)]
    refused = [status for status in store.statuses if status.source in files and status.state == "refused"]
    kept = any(status.kept for status in store.statuses) or any(source.lost for source in store.sources)
    if lost or refused or (strict and not kept):
        chains_of(settings, _unsaid)  # says it best: with every finding, and in the words of `wharf check`
    if refused:
        raise PoliciesRefused(_reports(refused))
    if lost:
        raise UsageError("; ".join(f"{source.name}: {source.lost}" for source in lost))


def _unsaid(_note: str) -> None:
    """None; it was said when the chain was assembled."""


def _reports(refused: Iterable[PolicyStatus]) -> str:
    return "policies were refused, and there are no former versions of them\n" + "\n".join(status.report.rstrip() for status in refused)

"""What the settings let policies of namespaces do, with the libraries that they may import.

Libraries are read once, when the process begins: they belong to the settings, and what they share is given away on purpose.
"""

from __future__ import annotations

from pathlib import Path
from posixpath import basename

from wharfinger.daemon.settings import Settings
from wharfinger.errors import UsageError
from wharfinger.language.authority import TenantPolicies, TenantRights
from wharfinger.language.diagnostics import Diagnostics, PolicyError
from wharfinger.language.load import policy_files
from wharfinger.language.parser import parse
from wharfinger.language.source_file import read_source

MOST_BYTES = 65_536
"""Of all libraries together: they are handed to the process that judges for the webhook as an argument of its command."""


def rights_of(settings: Settings) -> TenantRights:
    """What policies of namespaces may do; UsageError or PolicyError for libraries that cannot be read, or are none."""
    texts: dict[str, str] = {}
    for path in policy_files(settings.tenant_libraries):
        name = basename(Path(path).as_posix())
        if name in texts:
            raise UsageError(f"tenantLibraries: there are two files called {name}; policies import them by that name")
        texts[name] = _library(path)
    if sum(len(text.encode()) for text in texts.values()) > MOST_BYTES:
        raise UsageError(f"tenantLibraries: together they have more than {MOST_BYTES:,} bytes")
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

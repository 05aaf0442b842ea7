"""The policies that decide, as one value: what the scheduler takes over between two cycles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.policy_status import Mode
from wharfinger.runtime.policy_store.choosing import Choice, Claim


@dataclass(frozen=True, kw_only=True)
class ActivePolicies:
    """The chain of each profile, and for each shadow policy of a profile the chain that there would be if it decided."""

    chains: Mapping[str, Chain]
    shadows: Mapping[str, Mapping[str, Chain]] = field(default_factory=dict)

    @cached_property
    def revision(self) -> str:
        """SHA-256 over everything that decides and is compared, in hexadecimal."""
        shadows = {profile: {name: chain.policy_revision for name, chain in beside.items()} for profile, beside in self.shadows.items()}
        parts = [{profile: chain.revision for profile, chain in self.chains.items()}, shadows]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def activated(before: ActivePolicies, claims: Sequence[Claim], choices: Sequence[Choice]) -> ActivePolicies:
    """The policies that hold after a choice; chains that stay the same are the same objects as before."""
    chains = {}
    shadows = {}
    for profile, chain in before.chains.items():
        held = [
            (claim.mode, choice.policy)
            for claim, choice in zip(claims, choices, strict=True)
            if choice.policy is not None and profile in claim.profiles
        ]
        deciding = [policy for mode, policy in held if mode is Mode.ENFORCE]
        chains[profile] = with_policies(chain, deciding)
        known = before.shadows.get(profile, {})
        shadows[profile] = {
            policy.name: _shadow(known.get(policy.name, chains[profile]), deciding, policy) for mode, policy in held if mode is Mode.SHADOW
        }
    return ActivePolicies(chains=chains, shadows=shadows)


def _shadow(before: Chain, deciding: Sequence[CompiledPolicy], shadow: CompiledPolicy) -> Chain:
    """The chain in which a shadow policy decides too, in the place of the one that has its name."""
    return with_policies(before, [*(policy for policy in deciding if policy.name != shadow.name), shadow])

"""The versions of policies that are in force, as one value that the scheduler adopts between two cycles.

Two policies with one name cannot be in force together, nor two that contradict each other about a built-in plugin. Policies of the cluster
take precedence over those of namespaces. Within each, precedence goes to policies that keep their name, the oldest first, and then to new
ones in the order of sources and keys. A policy without precedence continues with its former version, if that contradicts no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework.chain import Chain, with_policies
from wharfinger.framework.policy_status import Mode
from wharfinger.framework.rules import pod_rules


class ActivationRequest(Struct, frozen=True, kw_only=True):
    """A policy that is to decide in some profiles: with its candidate, or else with the version that was in force before.

    `place` orders claims (source, key); `since` is when it came into force, perhaps before a restart; 0 for a new one.
    """

    place: tuple[int, str]
    mode: Mode
    profiles: frozenset[str]
    candidate: CompiledPolicy
    in_force: CompiledPolicy | None = None
    since: float = 0.0

    @property
    def precedence(self) -> tuple[bool, bool, float, tuple[int, str]]:
        """The sort key of claims; smaller ones choose first. No namespace may keep a policy of the cluster out."""
        goes_on = self.since > 0 and (self.in_force is None or self.in_force.name == self.candidate.name)
        return self.candidate.authority.namespace is not None, not goes_on, self.since, self.place


class Activation(Struct, frozen=True, kw_only=True):
    """The version in force for a request (None: no version), and why it is not the candidate ("" if it is)."""

    policy: CompiledPolicy | None
    conflict: str = ""


class _Activated(Struct):
    """The versions in force in one profile, as far as they have been chosen."""

    by_name: dict[tuple[bool, str], CompiledPolicy] = field(default_factory=dict)
    overriding: dict[str | None, list[CompiledPolicy]] = field(default_factory=dict)
    """Those that decide and set built-in plugins, by namespace: policies of two namespaces never contradict each other."""

    def add(self, mode: Mode, policy: CompiledPolicy) -> None:
        """Add a version that is in force."""
        shadow = mode is Mode.SHADOW
        self.by_name[shadow, policy.name] = policy
        if policy.base and not shadow:
            self.overriding.setdefault(policy.authority.namespace, []).append(policy)

    def conflict(self, mode: Mode, policy: CompiledPolicy) -> str:
        """The reason why a policy cannot be in effect together with the others; "" if it can."""
        shadow = mode is Mode.SHADOW
        other = self.by_name.get((shadow, policy.name))
        if other is not None and policy.authority.restricted:
            return f'there is another policy called "{policy.name}"'
        if other is not None:
            return f'there are two policies called "{policy.name}"; the one in {other.policy.source.name} was first'
        for holding in self._may_contradict(policy):
            in_its_place = shadow and holding.name == policy.name
            sentence = None if in_its_place else pod_rules.contradiction(holding, policy)
            if sentence is not None and policy.authority.restricted and holding.authority != policy.authority:
                return "a policy of the cluster sets a built-in plugin that this one sets too, in another way, for the same pods"
            if sentence is not None:
                return sentence
        return ""

    def _may_contradict(self, policy: CompiledPolicy) -> Iterator[CompiledPolicy]:
        """The versions that may contradict a policy: few of thousands."""
        if policy.base:
            own = policy.authority.namespace
            for namespace in self.overriding if own is None else (None, own):
                yield from self.overriding.get(namespace, ())


def choose(claims: Sequence[ActivationRequest]) -> list[Activation]:
    """The choice for each claim, in their order.

    A shadow policy is checked against the deciding policies, except the one of the same name.
    """
    taken = {profile: _Activated() for claim in claims for profile in claim.profiles}
    chosen: dict[tuple[int, str], Activation] = {}
    for claim in sorted(claims, key=lambda claim: (claim.mode is Mode.SHADOW, *claim.precedence)):
        of_profiles = [taken[profile] for profile in sorted(claim.profiles)]
        choice = chosen[claim.place] = _choice(claim, of_profiles)
        if choice.policy is not None:
            for there in of_profiles:
                there.add(claim.mode, choice.policy)
    return [chosen[claim.place] for claim in claims]


def _choice(claim: ActivationRequest, of_profiles: Sequence[_Activated]) -> Activation:
    if claim.mode is Mode.OFF:
        return Activation(policy=None)
    conflict = _conflict(claim, claim.candidate, of_profiles)
    if not conflict:
        return Activation(policy=claim.candidate)
    if claim.in_force is not None and claim.in_force is not claim.candidate and not _conflict(claim, claim.in_force, of_profiles):
        return Activation(policy=claim.in_force, conflict=conflict)
    return Activation(policy=None, conflict=conflict)


def _conflict(claim: ActivationRequest, policy: CompiledPolicy, of_profiles: Sequence[_Activated]) -> str:
    return next((sentence for there in of_profiles if (sentence := there.conflict(claim.mode, policy))), "")


class ActivePolicies(Struct, frozen=True, kw_only=True, dict=True):
    """The chain of each profile, and for each shadow policy of a profile the chain in which it decides too."""

    chains: Mapping[str, Chain]
    shadows: Mapping[str, Mapping[str, Chain]] = field(default_factory=dict)

    @cached_property
    def revision(self) -> str:
        """SHA-256 over everything that decides and is compared, in hexadecimal."""
        shadows = {profile: {name: chain.policy_revision for name, chain in chains.items()} for profile, chains in self.shadows.items()}
        parts = [{profile: chain.revision for profile, chain in self.chains.items()}, shadows]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def activated(before: ActivePolicies, claims: Sequence[ActivationRequest], choices: Sequence[Activation]) -> ActivePolicies:
    """The set of policies after a choice; chains that stay the same are the same objects as before."""
    chains = {}
    shadows = {}
    for profile, chain in before.chains.items():
        in_force = [
            (claim.mode, choice.policy)
            for claim, choice in zip(claims, choices, strict=True)
            if choice.policy is not None and profile in claim.profiles
        ]
        deciding = [policy for mode, policy in in_force if mode is Mode.ENFORCE]
        chains[profile] = with_policies(chain, deciding)
        known = before.shadows.get(profile, {})
        shadows[profile] = {
            policy.name: _shadow(known.get(policy.name, chains[profile]), deciding, policy)
            for mode, policy in in_force
            if mode is Mode.SHADOW
        }
    return ActivePolicies(chains=chains, shadows=shadows)


def _shadow(before: Chain, deciding: Sequence[CompiledPolicy], shadow: CompiledPolicy) -> Chain:
    """The chain with a shadow policy, which replaces the policy of the same name."""
    return with_policies(before, [*(policy for policy in deciding if policy.name != shadow.name), shadow])

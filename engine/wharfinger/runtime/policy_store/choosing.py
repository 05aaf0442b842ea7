"""Which version of each policy holds, where they get in each other's way.

Two policies of one name cannot both hold, nor two that contradict each other about a built-in plugin. Policies of the cluster come before
those of namespaces; otherwise whoever was there first stays: first those that go on under the name they had, by age; then newcomers, in the
order of sources and keys. Who has to give way goes on with the version it had before, if that is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wharfinger.compiler.program import CompiledPolicy
from wharfinger.framework import lineup
from wharfinger.framework.policy_status import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A policy that wants to hold in some profiles: with its candidate, or else with what it held before.

    `place` orders claims (source, key); `since` is when it began to hold, before a restart perhaps; 0 for a newcomer.
    """

    place: tuple[int, str]
    mode: Mode
    profiles: frozenset[str]
    candidate: CompiledPolicy
    held: CompiledPolicy | None = None
    since: float = 0.0

    @property
    def seniority(self) -> tuple[bool, bool, float, tuple[int, str]]:
        """What compares smaller for who goes first. No namespace may keep a policy of the cluster out."""
        goes_on = self.since > 0 and (self.held is None or self.held.name == self.candidate.name)
        return self.candidate.authority.namespace is not None, not goes_on, self.since, self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What holds for a claim, None for nothing, and why it is not the candidate ("" if it is)."""

    policy: CompiledPolicy | None
    objection: str = ""


@dataclass(slots=True)
class _Taken:
    """What holds in one profile, as far as it has been chosen."""

    by_name: dict[tuple[bool, str], CompiledPolicy] = field(default_factory=dict)

    def objection(self, mode: Mode, policy: CompiledPolicy) -> str:
        """Why a policy cannot hold beside the others, "" if it can."""
        shadow = mode is Mode.SHADOW
        other = self.by_name.get((shadow, policy.name))
        if other is not None and policy.authority.restricted:
            return f'there is another policy called "{policy.name}"'
        if other is not None:
            return f'there are two policies called "{policy.name}"; the one in {other.policy.source.name} was first'
        for (others_shadow, name), holding in self.by_name.items():
            in_its_place = shadow and name == policy.name
            sentence = None if others_shadow or in_its_place else lineup.contradiction(holding, policy)
            if sentence is not None and policy.authority.restricted and holding.authority != policy.authority:
                return "a policy of the cluster sets a built-in plugin that this one sets too, in another way, for the same pods"
            if sentence is not None:
                return sentence
        return ""


def choose(claims: Sequence[Claim]) -> list[Choice]:
    """What holds for each claim, in their order. A shadow policy is held against those that decide; its own name may be among them."""
    taken = {profile: _Taken() for claim in claims for profile in claim.profiles}
    chosen: dict[tuple[int, str], Choice] = {}
    for claim in sorted(claims, key=lambda claim: (claim.mode is Mode.SHADOW, *claim.seniority)):
        mine = [taken[profile] for profile in sorted(claim.profiles)]
        choice = chosen[claim.place] = _choice(claim, mine)
        if choice.policy is not None:
            for there in mine:
                there.by_name[claim.mode is Mode.SHADOW, choice.policy.name] = choice.policy
    return [chosen[claim.place] for claim in claims]


def _choice(claim: Claim, mine: Sequence[_Taken]) -> Choice:
    if claim.mode is Mode.OFF:
        return Choice(policy=None)
    objection = _objection(claim, claim.candidate, mine)
    if not objection:
        return Choice(policy=claim.candidate)
    if claim.held is not None and claim.held is not claim.candidate and not _objection(claim, claim.held, mine):
        return Choice(policy=claim.held, objection=objection)
    return Choice(policy=None, objection=objection)


def _objection(claim: Claim, policy: CompiledPolicy, mine: Sequence[_Taken]) -> str:
    return next((sentence for there in mine if (sentence := there.objection(claim.mode, policy))), "")

"""Lines of a log to the state, the chains and the questions that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import CompiledPolicy, compile_policy
from wharfinger.errors import WharfingerError
from wharfinger.framework.chain import Chain, assemble
from wharfinger.framework.configuration.chain_settings import ChainConfig
from wharfinger.language.authority import CLUSTER, Authority, TenantPolicies
from wharfinger.language.diagnostics import Diagnostics, PolicyError
from wharfinger.language.text_set import TextSet
from wharfinger.model import decode, objects
from wharfinger.model.checkpoint import put_back, stand_at
from wharfinger.model.cluster_state import ClusterState
from wharfinger.model.pod import PodView
from wharfinger.runtime.decision_log.lines import Line
from wharfinger.runtime.decision_log.reading import BrokenLog

_KINDS = {kind.__name__: kind for kind in objects.KINDS.values()}


class Playback:
    """What the scheduler knew at each line. `state` and `chains` (by profile) are those after the lines taken so far."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.chains: dict[str, Chain] = {}
        self.complete = False
        self._pods: dict[str, PodView] = {}
        self._policies: dict[str, CompiledPolicy] = {}
        self._take: Mapping[str, Callable[[Line], Any]] = {
            "log": self._begin,
            "node": lambda line: self.state.add_node(decode.decode_json(line.object, objects.Node)),
            "node gone": lambda line: self.state.remove_node(line.name),
            "pod": self._pod,
            "pod gone": lambda line: self.state.remove_pod(_named(line.uid)),
            "assume": lambda line: self.state.assume(self.pod(line), line.node),
            "forget": lambda line: self.state.forget(_named(line.uid)),
            "nominate": lambda line: self.state.nominate(self.pod(line), line.node),
            "denominate": lambda line: self.state.denominate(_named(line.uid)),
            "put": lambda line: self.state.put(decode.decode_json(line.object, _KINDS[line.kind])),
            "drop": lambda line: self.state.drop(line.kind, line.key),
            "metric": lambda line: self.state.set_metric(line.name, line.samples),
            "metric gone": lambda line: self.state.drop_metric(line.name),
            "state": self._complete,
            "policy": self._policy,
            "chain": self._chain,
        }

    def take(self, line: Line) -> None:
        """None; the line has happened. BrokenLog when it cannot have."""
        taken = self._take.get(line.t)
        if taken is None:
            raise BrokenLog(f"there are no lines called {line.t!r}")
        try:
            taken(line)
        except BrokenLog:
            raise
        except KeyError as error:
            raise BrokenLog(f"{line.t}: there is no {error}, neither in this version nor in the lines before") from error
        except (WharfingerError, ValueError, msgspec.MsgspecError) as error:
            raise BrokenLog(f"{line.t}: {error}") from error

    def pod(self, line: Line) -> PodView:
        """The pod that a line is about."""
        if bytes(line.object):
            self._pods[line.uid] = PodView(decode.decode_json(line.object, objects.Pod))
        found = self._pods.get(line.uid)
        if found is None:
            raise BrokenLog(f"pod {line.uid} was not written before")
        return found

    def _begin(self, _line: Line) -> None:
        self.state = ClusterState()
        self.chains.clear()
        self._pods.clear()
        self.complete = False

    def _complete(self, line: Line) -> None:
        stand_at(self.state, line.revision)
        self.complete = True

    def _pod(self, line: Line) -> None:
        pod = self.pod(line)
        if not self.complete:
            put_back(self.state, pod, line.node, assumed=line.assumed)
        else:
            self.state.add_pod(pod.placed_on(line.node) if line.node else pod)

    def _policy(self, line: Line) -> None:
        if line.policy not in self._policies:
            self._policies[line.policy] = compiled(line)

    def _chain(self, line: Line) -> None:
        if line.settings is None:
            raise BrokenLog("a chain without settings")
        policies = [self._policies[revision] for revision in line.policies]
        chain = assemble(policies, config_of(line))
        if chain.revision != line.chain:
            raise BrokenLog(
                f"profile {line.profile} cannot be made again: with these policies and settings this version, and the plugins that are "
                "installed, decide differently from those that wrote the log"
            )
        self.chains[line.profile] = chain


def compiled(line: Line, params: Mapping[str, Any] | None = None) -> CompiledPolicy:
    """The policy of a line, with other values of params where they are given. PolicyError when it does not compile any more."""
    diagnostics = Diagnostics()
    texts = TextSet(texts={name: text.encode() for name, text in line.texts.items()})
    found = texts.check(line.source, CATALOGUE, diagnostics, authority_of(line)).policy
    if found is None or diagnostics.has_errors:
        raise PolicyError(diagnostics)
    policy = compile_policy(found, {**line.params, **(params or {})})
    if params is None and policy.revision != line.policy:
        raise BrokenLog(f"policy {line.name} reads as another one than that which was recorded: this version understands it differently")
    return policy


def authority_of(line: Line) -> Authority:
    """Whose policy the one of a line is."""
    if line.namespace is None:
        return CLUSTER
    return Authority(line.namespace, TenantPolicies(line.allowed), frozenset(line.servers))


def config_of(line: Line) -> ChainConfig:
    """The settings of a chain's line."""
    found = line.settings
    if found is None:
        return ChainConfig()
    return ChainConfig(weights=found.weights, arguments=found.arguments, disabled=frozenset(found.disabled))


def _named(uid: str) -> PodView:
    """A pod of which nothing matters but its uid."""
    return PodView(objects.Pod(metadata=objects.ObjectMeta(uid=uid)))

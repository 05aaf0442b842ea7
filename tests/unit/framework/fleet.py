"""Small clusters, written down in a line, and plugins with scripted answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from tests.load_source import load_source
from wharfinger.builtins import CATALOGUE
from wharfinger.compiler.program import compile_policy
from wharfinger.framework import chain, registry
from wharfinger.framework.chain_settings import ChainConfig
from wharfinger.framework.extension import Arguments, FilterPlugin, Plugin, ScorePlugin
from wharfinger.framework.prepared import SKIP, PreparedFilter, PreparedScore, Reason, Rejected
from wharfinger.language.report.diagnostics import Diagnostics, Source
from wharfinger.language.report.render import render
from wharfinger.language.semantics.catalogue import Volatility
from wharfinger.model import objects
from wharfinger.model.objects.pod_view import PodView
from wharfinger.model.state.cluster_state import ClusterState

ZONE = "topology.kubernetes.io/zone"


def node(name, *, cpu="4", memory="16Gi", pods="110", labels=None, unschedulable=False):
    offer = {"cpu": cpu, "memory": memory, "pods": pods}
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}),
        spec=objects.NodeSpec(unschedulable=unschedulable),
        status=objects.NodeStatus(allocatable=offer, capacity=offer),
    )


def pod(name="web", *, cpu="100m", memory="128Mi", labels=None, node_name="", priority=None):
    container = objects.Container(name="main", image="web:1", resources=objects.ContainerResources(requests={"cpu": cpu, "memory": memory}))
    return PodView(
        objects.Pod(
            metadata=objects.ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", labels=labels or {}),
            spec=objects.PodSpec(containers=(container,), node_name=node_name, priority=priority),
        )
    )


def state(*nodes, pods=()):
    cluster = ClusterState()
    for each in nodes:
        cluster.add_node(node(each) if isinstance(each, str) else each)
    for each in pods:
        cluster.add_pod(each)
    return cluster


def policy(text, **params):
    """A compiled policy from its text."""
    diagnostics = Diagnostics()
    typed = load_source(Source(name="test.policy", text=text), CATALOGUE, diagnostics)
    assert typed is not None, render(diagnostics, format="plain")
    return compile_policy(typed, params)


class Verdict(Arguments):
    """The answer of a `Stub`, by node name."""

    reject: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unresolvable: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    refuse: str | None = None
    refuse_for_good: bool = False
    scores: dict[str, float] = Field(default_factory=dict)
    skip: bool = False


class Stub(FilterPlugin, ScorePlugin):
    """Rejects and scores nodes by name, as its arguments say."""

    name = "Stub"
    arguments_model = Verdict
    filter_volatility = Volatility.STATIC
    score_volatility = Volatility.STATIC

    def prepare_filter(self, attempt):
        settings = self.arguments
        if settings.skip:
            return SKIP
        if settings.refuse:
            return Rejected((Reason(settings.refuse, resolvable=not settings.refuse_for_good),))
        texts = sorted({text for reasons in settings.reject.values() for text in reasons})

        def bits(snapshot, rows):
            found = [sum(1 << texts.index(text) for text in settings.reject.get(name, ())) for name in snapshot.names]
            return np.array(found, np.uint64)[rows]

        nodes = None if settings.only is None else frozenset(settings.only)
        return Told(bits=bits, reasons=tuple(Reason(text, text not in settings.unresolvable) for text in texts), nodes=nodes)

    def prepare_score(self, attempt, feasible):
        settings = self.arguments
        return (
            SKIP
            if settings.skip
            else Points(lambda snapshot, rows: np.array([int(settings.scores.get(n, 0)) for n in snapshot.names])[rows])
        )


NO = (Reason("no"),)


class Told(PreparedFilter):
    """A prepared filter that answers with what `bits(snapshot, rows)` returns; more functions and values by name."""

    def __init__(self, bits, reasons=NO, **others):
        self._bits = bits
        self.reasons = reasons
        vars(self).update(others)

    def bits(self, snapshot, rows):
        return self._bits(snapshot, rows)


class Points(PreparedScore):
    """A prepared score that answers with what `raw(snapshot, rows)` returns; more functions and values by name."""

    def __init__(self, raw, **others):
        self._raw = raw
        vars(self).update(others)

    def raw(self, snapshot, rows):
        return self._raw(snapshot, rows)


def stub(name, base=Stub, **attributes) -> type[Plugin]:
    return type(name, (base,), {"name": name, **attributes})


def chain_of(*plugins, policies=(), weights=None, **arguments: dict[str, Any]):
    """A chain of just these plugin classes; arguments by plugin name."""
    found = registry.Registry([("a test", plugin) for plugin in plugins])
    return chain.assemble(policies, ChainConfig(arguments=arguments, weights=weights or {}), found)

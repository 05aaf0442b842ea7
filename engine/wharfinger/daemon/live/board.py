"""The board of the live page, read from the running scheduler between two of its turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import wharfinger
from wharfinger.daemon.live.pending import pending
from wharfinger.daemon.live.shades import Shades
from wharfinger.errors import UnknownObject, WharfingerError
from wharfinger.runtime.utilisation import utilisation
from wharfinger.web import decisions, policies
from wharfinger.web.ui.board import CORDONED, NOT_READY, TAINTED, Picture, Tiles

if TYPE_CHECKING:
    from wharfinger.daemon.compose import Daemon
    from wharfinger.daemon.health import Health
    from wharfinger.framework.ports import Clock
    from wharfinger.model.node_view import NodeView
    from wharfinger.model.snapshot import Snapshot
    from wharfinger.telemetry.recent_decisions import RecentDecisions
    from wharfinger.telemetry.reload_history import ReloadHistory
    from wharfinger.web.policies import Policies

ZONE = "topology.kubernetes.io/zone"
DECISIONS = 50
MOST_PODS = 250
"""Pods of a node that are named."""


class LiveBoard:
    """What the process knows; before there is a connection that is little."""

    def __init__(self, health: Health, told: Policies, recent: RecentDecisions, history: ReloadHistory, clock: Clock) -> None:
        self._health = health
        self._told = told
        self._recent = recent
        self._history = history
        self._clock = clock
        self._shades: Shades | None = None

    def picture(self, shade: str, known: int) -> Picture:
        """The nodes coloured by a shade."""
        snapshot = self._snapshot(self._daemon())
        layout = snapshot.layout_revision
        return Picture(
            layout=layout,
            tiles=None if layout == known else _tiles(snapshot),
            flags=_flags(snapshot),
            shade=self._colours().shade(shade, snapshot),
        )

    def parts(self) -> Iterator[tuple[str, Any] | None]:
        """Everything else, in steps."""
        yield "summary", self._summary()
        yield "policies", self._policies()
        yield "reloads", [dataclasses.asdict(reload) for reload in reversed(self._history.reloads)]
        found = [decisions.plain(record) for record in islice(self._recent.latest(), DECISIONS)]
        yield "decisions", {"seen": self._recent.n_seen, "latest": found}
        if self._health.daemon is not None:
            waiting = yield from pending(self._health.daemon.scheduler, self._recent, self._clock)
            yield "pending", waiting

    def node(self, name: str) -> Mapping[str, Any]:
        """One node."""
        snapshot = self._snapshot(self._daemon())
        row = snapshot.row(name)
        if row is None:
            raise UnknownObject(f"there is no node {name}")
        return _node(snapshot.node(row))

    def _daemon(self) -> Daemon:
        if self._health.daemon is None:
            raise WharfingerError("the API server has not answered yet")
        return self._health.daemon

    def _snapshot(self, daemon: Daemon) -> Snapshot:
        return daemon.scheduler.state.snapshot(float(int(self._clock.now())))

    def _colours(self) -> Shades:
        if self._shades is None:
            self._shades = Shades(self._daemon().scheduler)
        return self._shades

    def _summary(self) -> Mapping[str, Any]:
        daemon = self._health.daemon
        common = {"now": round(self._clock.now()), "version": wharfinger.__version__, "connected": daemon is not None}
        if daemon is None:
            return common
        scheduler, snapshot = daemon.scheduler, self._snapshot(daemon)
        used = utilisation(snapshot)
        return {
            **common,
            "identity": daemon.identity,
            "leads": daemon.leads,
            "trouble": daemon.contact.trouble,
            "missing": sorted(scheduler.missing_kinds),
            "nodes": used.nodes,
            "pods": used.pods,
            "queues": dict(scheduler.queue.depths),
            "binding": scheduler.n_binding,
            "revision": snapshot.revision,
            "profiles": [profile.name for profile in scheduler.profiles],
            "resources": [{"name": use.resource, "requested": use.requested, "allocatable": use.allocatable} for use in used.resources],
            "shades": [{"key": key, "title": title} for key, title in self._colours().choices(snapshot)],
        }

    def _policies(self) -> Mapping[str, Any]:
        return {
            "policies": policies.all_of(self._told),
            "sources": [dataclasses.asdict(source) for source in self._told.sources()],
            "shadows": [
                {name: report[name] for name in ("policy", "agreed", "disagreed", "errors", "unseen")}
                for report in self._told.shadows().values()
            ],
        }


def _tiles(snapshot: Snapshot) -> Tiles:
    codes = snapshot.label(ZONE)
    found, numbers = np.unique(codes, return_inverse=True)
    names = [snapshot.strings.text(code) or "" for code in found.tolist() if code >= 0]
    absent = int(len(found) > 0 and found[0] < 0)
    return Tiles(names=tuple(snapshot.names), zones=(numbers.reshape(-1) - absent).tolist(), zone_names=names)


def _flags(snapshot: Snapshot) -> NDArray[np.uint8]:
    """`(n_nodes,) uint8`: what the conditions, the cordon and the taints of nodes say."""
    ready = snapshot.condition("Ready")
    unready = (ready >= 0) & (ready != snapshot.strings.find("True"))
    flags = CORDONED * snapshot.unschedulable + NOT_READY * unready + TAINTED * (snapshot.taint_set != 0)
    return np.asarray(flags, np.uint8)


def _node(node: NodeView) -> Mapping[str, Any]:
    requested = node.requested
    return {
        "name": node.name,
        "labels": dict(node.labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
        "unschedulable": node.object.spec.unschedulable,
        "conditions": dict(node.conditions),
        "resources": [
            {"name": name, "requested": requested.get(name, 0), "allocatable": amount} for name, amount in sorted(node.allocatable.items())
        ],
        "nPods": len(node.pods),
        "pods": [{"pod": pod.key, "requests": dict(pod.requests), "priority": pod.priority} for pod in islice(node.pods, MOST_PODS)],
    }

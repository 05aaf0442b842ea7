"""What `/policies` tells of the policy store, and of the shadows once there is a scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from wharfinger.daemon.health import Health
from wharfinger.framework.policy_status import MetricStatus
from wharfinger.runtime.policy_store.shadow import ShadowReport
from wharfinger.runtime.policy_store.store import PolicyStore
from wharfinger.web.policies import Policies


def policies_told(store: PolicyStore, health: Health, *, to_anybody: bool = False) -> Policies:
    """What the pages ask, and whether from anywhere."""

    def shadows() -> Mapping[str, Mapping[str, Any]]:
        daemon = health.daemon
        return {} if daemon is None else {name: _plain(report) for name, report in daemon.shadows.reports.items()}

    def metrics() -> Sequence[MetricStatus]:
        return () if health.daemon is None else health.daemon.signals.metrics

    return Policies(metrics=metrics, statuses=lambda: store.statuses, sources=lambda: store.sources, shadows=shadows, to_anybody=to_anybody)


def _plain(report: ShadowReport) -> Mapping[str, Any]:
    return {
        "policy": report.policy,
        "revision": report.revision,
        "agreed": report.agreed,
        "disagreed": report.disagreed,
        "errors": report.errors,
        "unseen": report.unseen,
        "lastError": report.last_error or None,
        "last": [dataclasses.asdict(told) for told in report.last],
    }

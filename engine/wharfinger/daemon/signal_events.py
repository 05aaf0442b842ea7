"""Events about policies whose metrics lose their say, and have it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from wharfinger.framework.ports import NORMAL, WARNING, Event
from wharfinger.kube.events import EventRecorder
from wharfinger.runtime.policy_store.store import PolicyStore
from wharfinger.signals.failure import SignalFailed
from wharfinger.signals.mapping import Mapped
from wharfinger.signals.ports import SignalObserver, SilentSignalObserver
from wharfinger.signals.query import Query
from wharfinger.signals.suspension import Suspension

ACTION = "Measure"


class SignalObservers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[SignalObserver]) -> None:
        self._observers = observers

    def followed(self, queries: Mapping[str, Query]) -> None:
        """None; all are told."""
        for observer in self._observers:
            observer.followed(queries)

    def refreshed(self, query: Query, found: Mapped, seconds: float) -> None:
        """None; all are told."""
        for observer in self._observers:
            observer.refreshed(query, found, seconds)

    def refresh_failed(self, query: Query, error: SignalFailed, seconds: float) -> None:
        """None; all are told."""
        for observer in self._observers:
            observer.refresh_failed(query, error, seconds)

    def suspended(self, what: Suspension) -> None:
        """None; all are told."""
        for observer in self._observers:
            observer.suspended(what)

    def resumed(self, what: Suspension) -> None:
        """None; all are told."""
        for observer in self._observers:
            observer.resumed(what)


class SignalEvents(SilentSignalObserver):
    """Records events about the object that a policy comes from, if it comes from one. Of several replicas the one that `leads` tells."""

    def __init__(self, recorder: EventRecorder, policies: PolicyStore, leads: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._policies = policies
        self._leads = leads

    def suspended(self, what: Suspension) -> None:
        """None; an event says so."""
        self._record(what, WARNING, "MetricsUnavailable", f"{what}; the rules that use it have no say")

    def resumed(self, what: Suspension) -> None:
        """None; an event says so."""
        self._record(what, NORMAL, "MetricsAvailable", f"{what}; the rules that use it decide again")

    def _record(self, what: Suspension, type_: str, reason: str, note: str) -> None:
        if not self._leads():
            return
        for status in self._policies.statuses:
            is_his = (status.name, status.authority.namespace) == (what.policy, what.authority.namespace)
            if is_his and status.about is not None:  # another's text of that name has been refused
                event = Event(type=type_, reason=reason, action=ACTION, note=note)
                self._recorder.record_about(status.about, event, distinct=note)

"""Controllers and their queues are counted and measured, and missing kinds are logged."""

from tests.observed import subscribed
from wharfinger.operator.compose import KindsLost, KindsRestored
from wharfinger.operator.controller import KeyAdded, KeyRetried, KeyTaken, Reconciled
from wharfinger.telemetry import logs
from wharfinger.telemetry.metrics import reconcile_handlers


def test_keys_and_reconciles_are_counted_and_measured(scene):
    emit = subscribed(reconcile_handlers(scene.metrics, logs.log())).emit
    for event in (KeyAdded("apps"), KeyAdded("apps"), KeyTaken("apps", 2.5), KeyRetried("apps"), Reconciled("apps", "error", 0.25)):
        emit(event)
    assert scene.value("workqueue_adds_total", name="apps") == 2
    assert scene.value("workqueue_retries_total", name="apps") == 1
    assert scene.value("workqueue_queue_duration_seconds_sum", name="apps") == 2.5
    assert scene.value("wharfinger_reconcile_total", controller="apps", result="error") == 1
    assert scene.value("wharfinger_reconcile_duration_seconds_sum", controller="apps") == 0.25


def test_kinds_that_are_missing_are_logged_by_the_reason(scene):
    emit = subscribed(reconcile_handlers(scene.metrics, logs.log())).emit
    emit(KindsLost(absent=["PolicyApp"], refused={"Service": "forbidden"}))
    emit(KindsLost(absent=[], refused={}))
    emit(KindsRestored(["PolicyApp"]))
    reported = [(line["event"], line["kinds"], line.get("why")) for line in scene.lines()]
    assert reported == [
        ("custom resources are not defined; continuing without them", ["PolicyApp"], None),
        ("objects may not be read; continuing without them", ["Service"], "Service: forbidden"),
        ("objects can be read now", ["PolicyApp"], None),
    ]

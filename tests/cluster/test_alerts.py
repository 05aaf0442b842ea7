"""The alert rules and the dashboard's expressions, checked by Prometheus' own promtool."""

import json
import subprocess

import pytest
import yaml

from tests.cluster.programs import built
from tests.generate_docs import ALERTS as FOLDER
from tests.generate_docs import DASHBOARD
from tests.monitoring.alerts import ALERTS

OURS = 'job="wharfinger", instance="a"'
BUILD = {f'wharfinger_build_info{{{OURS}, version="1"}}': "1x200"}
OTHERS = 'job="kube-scheduler", instance="b"'


def counter(name, /, growing=True, **labels):
    return {series(name, **labels): "0+60x200" if growing else "100x200"}


def gauge(name, value, /, **labels):
    return {series(name, **labels): f"{value}x200"}


def series(name, /, **labels):
    return f"{name}{{{', '.join([OURS, *(f'{label}={json.dumps(value)}' for label, value in labels.items())])}}}"


def buckets(seconds):
    """Observations of which all take so long."""
    bounds = ("1.28", "2.56", "5.12", "10.24", "+Inf")
    name = "scheduler_pod_scheduling_sli_duration_seconds_bucket"
    return {series(name, attempts="1", le=le): "0+60x200" if float(le) >= seconds else "0x200" for le in bounds}


ATTEMPTS, REQUESTS = "scheduler_schedule_attempts_total", "rest_client_requests_total"
POLICY = {"policy": "spread", "revision": "abc"}
TWO = {'wharfinger_build_info{job="wharfinger", instance="b", version="1"}': "1x200"}

# By alert: series that raise it, and others that look alike and must not.
CASES = {
    "WharfingerAbsent": ({}, BUILD),
    "WharfingerNoLeader": (
        BUILD | gauge("leader_election_master_status", 0, name="wharfinger"),
        BUILD | gauge("leader_election_master_status", 1, name="wharfinger"),
    ),
    "WharfingerNoAttempts": (
        BUILD | gauge("scheduler_pending_pods", 3, queue="active") | counter(ATTEMPTS, growing=False, result="scheduled"),
        BUILD | gauge("scheduler_pending_pods", 3, queue="active") | counter(ATTEMPTS, result="scheduled"),
    ),
    "WharfingerAttemptsFail": (
        BUILD | counter(ATTEMPTS, result="error") | counter(ATTEMPTS, result="scheduled"),
        BUILD | counter(ATTEMPTS, growing=False, result="error") | counter(ATTEMPTS, result="scheduled"),
    ),
    "WharfingerQueueGrows": (
        BUILD | gauge("scheduler_pending_pods", 101, queue="active"),
        BUILD | gauge("scheduler_pending_pods", 1000, queue="unschedulable"),
    ),
    "WharfingerGroupsWait": (
        BUILD | gauge("wharfinger_waiting_groups", 2, queue="unschedulable"),
        BUILD | gauge("wharfinger_waiting_groups", 2, queue="incomplete"),
    ),
    "WharfingerSlow": (BUILD | buckets(8), BUILD | buckets(2)),
    "WharfingerMissedEvents": (
        BUILD | counter("scheduler_pod_scheduled_after_flush_total"),
        BUILD | counter("scheduler_pod_scheduled_after_flush_total", growing=False),
    ),
    "WharfingerPolicyRefused": (
        BUILD | gauge("wharfinger_policies", 1, state="kept"),
        BUILD | gauge("wharfinger_policies", 4, state="active"),
    ),
    "WharfingerPolicySourceLost": (
        BUILD | gauge("wharfinger_policy_source_lost", 1, source="policies/"),
        BUILD | gauge("wharfinger_policy_source_lost", 0, source="policies/"),
    ),
    "WharfingerPoliciesDiffer": (
        BUILD | TWO | gauge("wharfinger_policy_active_info", 1, **POLICY),
        BUILD | gauge("wharfinger_policy_active_info", 1, **POLICY),
    ),
    "WharfingerAdmissionFails": (
        BUILD | counter("wharfinger_policy_admission_total", result="failed"),
        BUILD | counter("wharfinger_policy_admission_total", result="refused"),
    ),
    "WharfingerSignalSuspended": (
        BUILD | gauge("wharfinger_signal_suspended", 1, policy="load", metric="cpu"),
        BUILD | gauge("wharfinger_signal_suspended", 0, policy="load", metric="cpu"),
    ),
    "WharfingerSignalsFail": (
        BUILD | counter("wharfinger_signal_refresh_failures_total", server="default", kind="timeout"),
        BUILD | counter("wharfinger_signal_refresh_failures_total", growing=False, server="default", kind="timeout"),
    ),
    "WharfingerThrottled": (BUILD | counter(REQUESTS, code="429"), BUILD | counter(REQUESTS, code="409")),
    "WharfingerUnanswered": (
        BUILD | counter(REQUESTS, code="<error>") | counter(REQUESTS, code="200"),
        BUILD | counter(REQUESTS, growing=False, code="<error>") | counter(REQUESTS, code="200"),
    ),
    "WharfingerWatchesBreak": (
        BUILD | counter("wharfinger_errors_total", place="watch"),
        BUILD | counter("wharfinger_errors_total", place="pod"),
    ),
    "WharfingerReconcilesFail": (
        BUILD | counter("wharfinger_reconcile_total", controller="policy", result="error"),
        BUILD | counter("wharfinger_reconcile_total", controller="policy", result="conflict"),
    ),
    "WharfingerLogLinesLost": (
        BUILD | counter("wharfinger_log_lines_left_out_total", reason="unread"),
        BUILD | counter("wharfinger_log_lines_left_out_total", reason="repeated"),
    ),
}


def of_another(given):
    """The same series of another process, next to one of ours that is quiet."""
    return BUILD | {name.replace(OURS, OTHERS): values for name, values in given.items() if "build_info" not in name}


@pytest.fixture(scope="module")
def promtool():
    program = built("promtool")

    def run(*arguments, cwd=None):
        return subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, check=False)

    return run


def firing(alert, given, expected, name):
    """A test of promtool: after an hour of these series the alert is raised, or it is not."""
    return {
        "name": name,
        "interval": "30s",
        "input_series": [{"series": named, "values": values} for named, values in given.items()],
        "promql_expr_test": [
            {"expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})', "eval_time": "1h", "exp_samples": expected}
        ],
    }


def test_every_alert_is_raised_by_what_it_is_about_and_by_nothing_that_looks_like_it(promtool, tmp_path):
    tests = []
    for alert, (bad, good) in CASES.items():
        tests.append(firing(alert, bad, [{"value": 1, "labels": "{}"}], f"{alert} is raised"))
        tests.append(firing(alert, good, [], f"{alert} is not raised"))
        if alert != "WharfingerAbsent":
            scheduler_s_own = {name: values for name, values in bad.items() if not name.startswith("wharfinger_")}
            tests.append(firing(alert, of_another(scheduler_s_own), [], f"{alert} is not about others"))
    (tmp_path / "rules.yaml").write_text((FOLDER / "rules.yaml").read_text())
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}))

    done = promtool("test", "rules", "tests.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_alert_is_raised_before_it_has_lasted(promtool, tmp_path):
    tests = []
    for alert in ALERTS:
        minutes = int(alert.lasts.removesuffix("m"))
        begun = firing(alert.name, CASES[alert.name][0], [], f"{alert.name} waits")
        begun["promql_expr_test"][0]["eval_time"] = f"{minutes - 1}m"
        tests.append(begun)
    (tmp_path / "rules.yaml").write_text((FOLDER / "rules.yaml").read_text())
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}))

    done = promtool("test", "rules", "tests.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case():
    assert list(CASES) == [alert.name for alert in ALERTS]


def test_prometheus_understands_the_rules(promtool):
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(FOLDER / "rules.yaml"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_prometheus_understands_every_expression_of_the_dashboard(promtool, tmp_path):
    panels = json.loads(DASHBOARD.read_text())["panels"]
    exprs = {target["expr"] for panel in panels for target in panel.get("targets", ())}
    assert len(exprs) > 40
    given = (expr.replace("$__rate_interval", "5m").replace("$job", "wharfinger") for expr in sorted(exprs))
    rules = [{"record": f"panel:expression{number}", "expr": expr} for number, expr in enumerate(given)]
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = promtool("check", "rules", "panels.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr

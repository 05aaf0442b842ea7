"""Configuration files: their content, and the errors for what is not supported."""

import re
from pathlib import Path

import pytest
import yaml

from wharfinger.daemon.settings import Settings, read_settings, settings_text
from wharfinger.daemon.settings_fields import seconds, text
from wharfinger.errors import UsageError

HEAD = "apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n"


@pytest.fixture
def file(tmp_path):
    def write(content, head=HEAD, name="wharf.yaml"):
        path = tmp_path / name
        path.write_text(head + content)
        return str(path)

    return write


def test_an_empty_file_has_the_defaults(file):
    assert read_settings(file("")) == Settings()


def test_a_field_without_a_value_is_not_there(file):
    assert read_settings(file("logging:\nclientConnection: {context: }\n")) == Settings()


def test_paths_are_those_of_the_file(file, tmp_path):
    settings = read_settings(
        file(
            "clientConnection: {kubeconfig: kube/config}\n"
            "profiles:\n- policies: [policies/, /etc/a.policy]\n  kubeSchedulerConfiguration: scheduler.yaml\n"
        )
    )

    assert settings.client_connection.kubeconfig == str(tmp_path / "kube/config")
    assert settings.profiles[0].policies == (str(tmp_path / "policies"), "/etc/a.policy")
    assert settings.profiles[0].kube_scheduler_configuration == str(tmp_path / "scheduler.yaml")


def test_home_is_home(file):
    assert read_settings(file("clientConnection: {kubeconfig: ~/.kube/config}\n")).client_connection.kubeconfig == str(
        Path("~/.kube/config").expanduser()
    )


def test_params_may_be_written_as_yaml_has_them(file):
    settings = read_settings(file("profiles: [{params: {share: 20%, count: 3, part: 0.5, strict: true, zones: [a, b]}}]"))

    assert settings.profiles[0].params == {"share": "20%", "count": "3", "part": "0.5", "strict": "true", "zones": "a,b"}


SENTENCES = {
    "an unknown field": (
        "leaderElection: {leaderElection: true}",
        "leaderElection.leaderElection: there is no such field; did you mean leaderElect?",
    ),
    "an unknown field of a profile": ("profiles: [{policie: [a]}]", "profiles[0].policie: there is no such field; did you mean policies?"),
    "a wrong type": ("port: many", "port: expected a number, not 'many'"),
    "a number in quotes": ('port: "1_0259"', "port: expected a number, not '1_0259'"),
    "a truth for a number": ("limits: {binds: true}", "limits.binds: expected a number, not true"),
    "a backoff in quotes": ('podMaxBackoffSeconds: "20"', "podMaxBackoffSeconds: expected a number, not '20'"),
    "an endless duration": (
        "leaderElection: {leaseDuration: .inf}",
        "leaderElection.leaseDuration: Input should be a finite number, not inf",
    ),
    "no list": ("profiles: [{policies: a.policy}]", "profiles[0].policies: Input should be a list, not 'a.policy'"),
    "no mapping": ("clientConnection: kubeconfig", "clientConnection: Input should be a mapping, not 'kubeconfig'"),
    "a number out of range": ("port: 70000", "port: Input should be less than or equal to 65535, not 70000"),
    "a choice that is none": ("logging: {format: xml}", "logging.format: Input should be 'console' or 'json', not 'xml'"),
    "a truth for a duration": (
        "leaderElection: {leaseDuration: true}",
        "leaderElection.leaseDuration: expected a duration such as 15s or 1m30s, not 'true'",
    ),
    "a truth for a ratio": (
        "tracing: {endpoint: 'http://a', samplingRatio: true}",
        "tracing.samplingRatio: Input should be a valid number, not True",
    ),
    "no duration": (
        "leaderElection: {leaseDuration: soon}",
        "leaderElection.leaseDuration: expected a duration such as 15s or 1m30s, not 'soon'",
    ),
    "durations that cannot be": (
        "leaderElection: {leaseDuration: 5s}",
        "leaderElection: leaseDuration must be longer than renewDeadline, and that longer than 1.2 times retryPeriod",
    ),
    "no backoff": ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: Input should be greater than or equal to 1, not 0"),
    "a backoff beyond any duration": (
        "podMaxBackoffSeconds: 9223372037",
        "podMaxBackoffSeconds: Input should be less than or equal to 9223372036, not 9223372037",
    ),
    "a first backoff longer than the longest": (
        "podInitialBackoffSeconds: 11",
        "the document: podMaxBackoffSeconds is 10; it must be at least podInitialBackoffSeconds, which is 11",
    ),
    "two profiles of one name": (
        "profiles: [{policies: [a]}, {policies: [b]}]",
        "profiles: there are several profiles for schedulerName wharfinger; join their policies in one, or rename one",
    ),
}


@pytest.mark.parametrize(("content", "sentence"), SENTENCES.values(), ids=SENTENCES)
def test_faults_are_reported_with_file_and_place(file, content, sentence):
    path = file(content)

    with pytest.raises(UsageError) as raised:
        read_settings(path)

    assert str(raised.value) == f"{path}: {sentence}"


def test_every_fault_has_its_line(file):
    with pytest.raises(UsageError) as raised:
        read_settings(file("port: many\nlogging: {level: loud}\n"))

    assert [line.split(": ")[1] for line in str(raised.value).splitlines()] == ["port", "logging.level"]


WRONG_FILES = {
    "one of kube-scheduler": (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
        "this is a KubeSchedulerConfiguration; name it as kubeSchedulerConfiguration of a profile in a WharfingerConfiguration",
    ),
    "no head": ("port: 1\n", "apiVersion and kind are missing; a WharfingerConfiguration begins with apiVersion: config.wharfinger.dev"),
    "half a head": ("kind: WharfingerConfiguration\n", "apiVersion is missing; "),
    "another version": (HEAD.replace("v1alpha1", "v2"), "apiVersion: expected config.wharfinger.dev/v1alpha1, not "),
    "two documents": (f"{HEAD}---\n{HEAD}", "expected one WharfingerConfiguration"),
    "a list": ("- a\n", "expected one WharfingerConfiguration"),
    "no YAML": ("a: [", "not YAML: "),
}


@pytest.mark.parametrize(("content", "sentence"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_file_of_another_kind_is_refused_with_what_to_do(file, content, sentence):
    path = file(content, head="")

    with pytest.raises(UsageError, match=re.escape(f"{path}: {sentence}")):
        read_settings(path)


def test_a_missing_file_is_named():
    with pytest.raises(UsageError, match=r"nowhere\.yaml: No such file or directory"):
        read_settings("nowhere.yaml")


def test_paths_are_relative_to_the_settings_file(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = read_settings(
        file(
            "clientConnection: {kubeconfig: config, context: prod}\nprofiles:\n- schedulerName: a\n  policies: [one.policy]\n"
            "  params: {x: 20%}\n- schedulerName: b\nleaderElection: {leaseDuration: 1m30s, renewDeadline: 1m}\nport: 0\ndryRun: true\n"
        )
    )
    kept = tmp_path / "elsewhere" / "printed.yaml"
    kept.parent.mkdir()
    kept.write_text(settings_text(settings))

    assert read_settings(str(kept)) == settings
    assert settings_text(read_settings(str(kept))) == kept.read_text()
    assert yaml.safe_load(kept.read_text())["leaderElection"]["leaseDuration"] == "90s"


@pytest.mark.parametrize(
    ("written", "meant"),
    [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400), (7, 7), ("0.01ms", 0.00001), ("999999999999h", 3599999999996400)],
)
def test_durations_are_kubernetes_own(written, meant):
    assert seconds(written) == meant
    assert seconds(text(seconds(written))) == meant


@pytest.mark.parametrize("written", ["", "15", "s", "15 s", "-1s", "1s1", "1d"])
def test_malformed_durations_are_refused(written):
    with pytest.raises(ValueError, match="expected a duration"):
        seconds(written)


def test_a_file_too_large_for_settings_is_not_read_to_its_end(file):
    with pytest.raises(UsageError, match=r"wharf.yaml: larger than 1 MiB, so it is no settings file"):
        read_settings(file("# " + "x" * 2**20))

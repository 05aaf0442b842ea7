"""Profiles of the settings become chains before anything is connected to."""

import os

import pytest

from wharfinger.daemon.policies import chains_of
from wharfinger.daemon.settings import Profile, Settings
from wharfinger.errors import UnknownObject, UsageError
from wharfinger.framework.chain import assemble
from wharfinger.language.report.diagnostics import PolicyError

POLICY = """policy "pack"
param size: percent = 10%
filter keep { require node.free.memory >= node.allocatable.memory * size else "too full" }
"""


def unheard(note):
    raise AssertionError(note)


def chains(*profiles, note=unheard):
    return chains_of(Settings(profiles=profiles), note)


def test_without_policies_kubernetes_own_rules_decide():
    assert str(chains(Profile())["wharfinger"]) == str(assemble())


def test_each_profile_has_its_own_policies_and_params(tmp_path):
    (tmp_path / "pack.policy").write_text(POLICY)
    own = {"policies": (str(tmp_path),)}

    made = chains(Profile(scheduler_name="small", **own, params={"size": "5%"}), Profile(scheduler_name="big", **own), Profile())

    assert [policy.name for policy in made["big"].policies] == ["pack"]
    assert not made["wharfinger"].policies
    assert made["small"].revision != made["big"].revision


def test_a_policy_that_does_not_compile_comes_with_its_findings(tmp_path):
    (tmp_path / "bad.policy").write_text("policy bad { score = }")

    with pytest.raises(PolicyError):
        chains(Profile(policies=(str(tmp_path),)))


def test_a_missing_policy_is_named_with_its_profile():
    with pytest.raises(UsageError, match=r"profile batch: nowhere\.policy: no such file or folder"):
        chains(Profile(scheduler_name="batch", policies=("nowhere.policy",)))


@pytest.mark.parametrize("name", ["pipe.policy", "pipe"])
def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path, name):
    os.mkfifo(tmp_path / name)

    with pytest.raises(UsageError, match=r"pipe(\.policy)?: not a regular file"):
        chains(Profile(policies=(str(tmp_path / name),)))


def test_a_file_that_would_not_be_followed_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "pack.txt").write_text(POLICY)

    with pytest.raises(UsageError, match=r"pack\.txt: only files whose names end in \.policy are read; rename it"):
        chains(Profile(policies=(str(tmp_path / "pack.txt"),)))


def test_a_param_that_no_policy_has_is_refused(tmp_path):
    (tmp_path / "pack.policy").write_text(POLICY)

    with pytest.raises(UnknownObject, match="did you mean size"):
        chains(Profile(policies=(str(tmp_path),), params={"sise": "5%"}))


KUBE = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: a
  plugins: {score: {disabled: [{name: ImageLocality}]}}
- schedulerName: b
"""


def test_a_profile_takes_the_plugin_settings_of_its_name(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(KUBE)

    made = chains(*(Profile(scheduler_name=name, kube_scheduler_configuration=str(path)) for name in "ab"))

    assert str(made["b"]) == str(assemble())
    assert str(made["a"]) != str(assemble())


def test_plugin_settings_for_other_names_are_refused_and_notes_are_reported(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(KUBE + "parallelism: 4\n")
    notes = []

    with pytest.raises(UsageError, match="there are a, b; profile c needs one of its own name there"):
        chains(Profile(scheduler_name="c", kube_scheduler_configuration=str(path)), note=notes.append)
    assert notes == [f"{path}: parallelism: changes nothing: all nodes are evaluated together"]

"""`wharf run` and `wharf config print`: settings from a file and flags, and how a run ends that cannot begin."""

import pytest
import yaml

HEAD = {"apiVersion": "config.wharfinger.dev/v1alpha1", "kind": "WharfingerConfiguration"}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "good.policy").write_text(
        'policy "good"\nparam size: percent = 10%\nfilter keep { require node.free.cpu >= node.allocatable.cpu * size else "full" }\n'
    )
    (tmp_path / "bad.policy").write_text('policy "bad"\nfilter keep { require nod.free.cpu > 1cpu else "full" }\n')


@pytest.fixture
def printed(wharf):
    def run(*flags):
        code, out, err = wharf("config", "print", *flags)
        assert (code, err) == (0, "")
        return yaml.safe_load(out)

    return run


@pytest.fixture
def config(tmp_path):
    def write(**content):
        path = tmp_path / "wharf.yaml"
        path.write_text(yaml.safe_dump(HEAD | content))
        return path

    return write


def test_flags_are_the_only_profile(printed, tmp_path):
    found = printed("--scheduler-name=mine", "--policy", "good.policy", "bad.policy", "--param=size=5%", "--kubeconfig=k", "--context=c")

    assert found["profiles"] == [
        {
            "schedulerName": "mine",
            "policies": [str(tmp_path / "good.policy"), str(tmp_path / "bad.policy")],
            "shadowPolicies": [],
            "params": {"size": "5%"},
        }
    ]
    assert found["clientConnection"] == {"kubeconfig": str(tmp_path / "k"), "context": "c"}


def test_flags_outweigh_the_file_and_leave_the_rest(printed, config):
    path = config(port=7, bindAddress="::1", logging={"level": "debug"}, dryRun=True, leaderElection={"resourceName": "mine"})

    found = printed("--config", path, "--port=8", "--log-format=json", "--no-leader-elect")

    assert (found["port"], found["bindAddress"], found["dryRun"]) == (8, "::1", True)
    assert found["logging"] == {"format": "json", "level": "debug"}
    assert (found["leaderElection"]["leaderElect"], found["leaderElection"]["resourceName"]) == (False, "mine")


def test_a_flag_is_for_the_profile_that_is_named(printed, config):
    path = config(profiles=[{"schedulerName": "a", "params": {"size": "1%"}}, {"schedulerName": "b"}])

    found = printed("--config", path, "--scheduler-name=b", "--policy=good.policy")

    assert [(profile["schedulerName"], len(profile["policies"])) for profile in found["profiles"]] == [("a", 0), ("b", 1)]


def test_the_webhook_is_asked_for_by_its_certificate(printed, wharf, config, tmp_path):
    path = config(admission={"certificate": "tls/cert", "key": "tls/key", "clientCaFile": "tls/ca", "clientNames": ["api"]})
    others = {"clientCaFile": f"{tmp_path}/tls/ca", "clientNames": ["api"], "anyCaller": False}

    found = printed("--config", path)["admission"]
    assert found == {"certificate": f"{tmp_path}/tls/cert", "key": f"{tmp_path}/tls/key", "port": 10262, **others}
    found = printed("--config", path, "--admission-certificate=other", "--admission-port=9")["admission"]
    assert found == {"certificate": f"{tmp_path}/other", "key": f"{tmp_path}/tls/key", "port": 9, **others}
    assert "admission" not in printed()
    assert wharf("config", "print", "--admission-key=key")[0::2] == (2, "wharf: flags: admission.certificate: this field is needed\n")


def test_callers_of_the_webhook_must_be_named(printed, wharf):
    flags = ("--admission-certificate=cert", "--admission-key=key")

    status, _, said = wharf("config", "print", *flags)
    assert status == 2
    assert "the webhook needs clientCaFile, the CA of the client certificate of the API server" in said
    assert printed(*flags, "--admission-any-caller")["admission"]["anyCaller"] is True
    status, _, said = wharf("config", "print", *flags, "--admission-any-caller", "--admission-client-ca=ca")
    assert status == 2
    assert "anyCaller accepts clients without a certificate" in said


def test_printed_settings_are_a_valid_file_for_config(wharf, tmp_path):
    _, first, _ = wharf("config", "print", "--policy=good.policy", "--dry-run")
    (tmp_path / "printed.yaml").write_text(first)

    assert wharf("config", "print", "--config=printed.yaml") == (0, first, "")


AMBIGUOUS = {
    "no name": (("--policy=good.policy",), "has several profiles; say with --scheduler-name which one --policy and --param are for"),
    "another name": (("--scheduler-name=batc", "--policy=good.policy"), "has no such profile; did you mean batch?"),
    "nothing for it": (("--scheduler-name=batch",), "--policy and --param are for; give one of them too"),
}


@pytest.mark.parametrize(("flags", "sentence"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_flags_that_could_be_for_several_profiles_are_refused(wharf, config, flags, sentence):
    path = config(profiles=[{"schedulerName": "a"}, {"schedulerName": "batch"}])

    code, _, err = wharf("config", "print", "--config", path, *flags)

    assert code == 2
    assert sentence in err


REFUSED = {
    "a policy that does not compile": (("--policy=bad.policy",), 1, "did you mean"),
    "a missing policy": (("--policy=nowhere.policy",), 2, "nowhere.policy: no such file or folder"),
    "a param that is none": (("--policy=good.policy", "--param=sise=1%"), 2, "did you mean size?"),
    "a param of another type": (("--policy=good.policy", "--param=size=1Gi"), 2, "param size of policy good"),
    "a missing kubeconfig": (("--kubeconfig=nowhere",), 2, "cannot read how to connect to the API server: nowhere does not exist"),
    "a bad port": (("--port=70000",), 2, "flags: port: Input should be less than or equal to 65535"),
    "a missing file": (("--config=nowhere.yaml",), 2, "nowhere.yaml: No such file or directory"),
}


@pytest.mark.parametrize(("flags", "exit_code", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_run_that_cannot_begin_says_why(wharf, flags, exit_code, sentence):
    code, out, err = wharf("run", *flags, *(() if flags[0].startswith("--port") else ("--port=0",)))

    assert (code, out) == (exit_code, "")
    assert sentence in err
    assert "Traceback" not in err

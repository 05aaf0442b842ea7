"""The sources of programs, and the messages if there are none."""

import pytest

from tests.testbed import build


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_a_module_lives_in_a_folder_named_for_what_it_is_made_of(empty_cache):
    place = build.folder("kubernetes")

    assert place.parent == empty_cache / "wharfinger" / "testbed"
    assert place.name == "kubernetes-5548738cf69e5e00"


def test_without_go_the_reason_names_what_to_install(empty_cache, monkeypatch):
    monkeypatch.setenv("PATH", str(empty_cache))

    with pytest.raises(build.Unavailable, match="no Go to build it with"):
        build.program("kubectl")


def test_programs_that_are_given_win(empty_cache, monkeypatch):
    (empty_cache / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(empty_cache))

    assert build.program("etcd") == empty_cache / "etcd"


def test_built_binaries_are_found_without_go(empty_cache, monkeypatch):
    monkeypatch.setenv("PATH", str(empty_cache))
    binary = build.folder("kubernetes") / "bin" / "server"
    binary.parent.mkdir(parents=True)
    binary.touch()

    assert build.program("etcd") == binary


def test_a_failed_build_leaves_nothing_behind(empty_cache, monkeypatch):
    go = empty_cache / "go"
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty_cache}:/usr/bin:/bin")

    with pytest.raises(build.Unavailable, match="go install"):
        build.build("kwok")

    assert [path.name for path in build.cache().iterdir() if path.is_dir()] == []


def test_the_version_of_kubernetes_is_reported():
    assert "gitVersion=v1.36.3" in build.linker_flags("kubernetes")
    assert build.linker_flags("kwok") == "-s -w"


def test_an_unknown_module_is_refused(capsys):
    assert build.main(["cubernetes"]) == 2
    assert "cubernetes" in capsys.readouterr().err

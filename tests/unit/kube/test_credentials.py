"""Credentials with which no request can be made are refused when they are read."""

import asyncio
import time

import pytest
import yaml

from wharfinger.errors import UsageError
from wharfinger.kube import credentials
from wharfinger.kube.credentials import Credentials


def kubeconfig(folder, server="http://127.0.0.1:1", cluster=None, **user):
    path = folder / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def loaded(path):
    return asyncio.run(Credentials(str(path), None, time.monotonic).load())


@pytest.mark.parametrize("server", ["zork:/x", "10.0.0.1:6443", "https://", "ftp://127.0.0.1"])
def test_an_address_that_is_no_url_is_refused_with_an_example(tmp_path, server):
    with pytest.raises(UsageError, match="expected a URL such as https://"):
        loaded(kubeconfig(tmp_path, server))


def test_a_port_that_no_machine_has_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read how to connect to the API server: .*[Pp]ort"):
        loaded(kubeconfig(tmp_path, "https://127.0.0.1:999999"))


@pytest.mark.parametrize("token", ["a\nX: y", "a\0b", "snow\u2603"])
def test_a_token_that_fits_in_no_header_is_refused_and_not_quoted(tmp_path, token):
    with pytest.raises(UsageError, match="the user's token contains a line break or another character") as refused:
        loaded(kubeconfig(tmp_path, token=token))
    assert token not in str(refused.value)


@pytest.mark.parametrize("content", ["", "users:\n", "clusters: 5\ncurrent-context: c\ncontexts: 3"])
def test_a_file_that_is_no_kubeconfig_is_called_none(tmp_path, content):
    (tmp_path / "config").write_text(content)

    with pytest.raises(UsageError, match=r"cannot read how to connect to the API server: (this is not a kubeconfig|Invalid kube-config)"):
        loaded(tmp_path / "config")


@pytest.mark.parametrize("content", ["[" * 100_000, "clusters: &a [*a]"])
def test_a_file_that_would_end_its_parser_is_refused_with_its_name(tmp_path, content):
    (tmp_path / "config").write_text(content)

    with pytest.raises(UsageError, match="config: values are nested more than 200 levels deep"):
        loaded(tmp_path / "config")


def test_an_exec_plugin_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "_EXEC_TIMEOUT", 0.05)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["0.4"], "interactiveMode": "Never"}

    async def story():
        with pytest.raises(UsageError, match="the exec plugin of the kubeconfig took over"):
            await Credentials(str(kubeconfig(tmp_path, exec=plugin)), None, time.monotonic).load()
        await asyncio.sleep(0.5)  # until the plugin has ended, which its loop should see

    asyncio.run(story())


@pytest.mark.parametrize(("content", "wrong"), [(None, "No such file or directory"), ("no certificate", "NO_CERTIFICATE")])
def test_an_authority_that_cannot_be_read_is_named(tmp_path, content, wrong):
    if content is not None:
        (tmp_path / "ca.crt").write_text(content)

    with pytest.raises(UsageError, match=rf"ca\.crt.*|{wrong}") as refused:
        loaded(kubeconfig(tmp_path, "https://127.0.0.1:1", {"certificate-authority": "ca.crt"}))
    assert "ca.crt" in str(refused.value)
    assert wrong in str(refused.value)


def test_a_kubeconfig_that_is_being_replaced_is_read_again_later(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    folder, seconds = tmp_path / ".kube", [0.0]
    folder.mkdir()

    async def story():
        path = kubeconfig(folder, token="old")
        found = Credentials(None, None, lambda: seconds[0])
        await found.load()
        path.unlink()
        seconds[0] += 61
        assert await found.authorization() == "Bearer old"
        kubeconfig(folder, token="new")
        seconds[0] += 61
        assert await found.authorization() == "Bearer new"

    asyncio.run(story())

"""Kubeconfigs that are read without the official client say the same as with it."""

import asyncio

import pytest
import yaml

from wharfinger.kube.credentials import plain_access
from wharfinger.kube.official_client import Kubeconfig

NAMES = ("host", "ssl_ca_cert", "verify_ssl", "cert_file", "key_file", "tls_server_name", "proxy", "api_key")
SERVER = {"server": "https://example:6443/"}
TOKEN = {"token": "secret"}


@pytest.fixture
def written(tmp_path):
    def write(cluster, user, **more):
        for name in ("ca.crt", "me.crt", "me.key"):
            (tmp_path / name).write_text(name)
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "another"}}],
            "contexts": [
                {"name": "one", "context": {"cluster": "c", "user": "u"}},
                {"name": "two", "context": {"cluster": "c", "user": "other"}},
            ],
            "current-context": "one",
            **more,
        }
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def officially(path, context):
    found = Kubeconfig(path, context)
    asyncio.run(found.load())
    return found.configuration


@pytest.mark.parametrize("context", [None, "one", "two"])
@pytest.mark.parametrize("user", [TOKEN, {"client-certificate": "me.crt", "client-key": "me.key"}], ids=["token", "certificate"])
@pytest.mark.parametrize(
    "cluster",
    [
        SERVER,
        {"server": "http://example:8080"},
        {**SERVER, "certificate-authority": "ca.crt", "tls-server-name": "other"},
        {**SERVER, "insecure-skip-tls-verify": True},
    ],
    ids=["defaults", "no TLS", "trust", "no trust"],
)
def test_plain_kubeconfigs_are_read_like_the_official_client_reads_them(written, cluster, user, context):
    path = written(cluster, user)
    found, official = plain_access(path, context), officially(path, context)
    assert {name: getattr(found, name) or None for name in NAMES} == {name: getattr(official, name) or None for name in NAMES}


@pytest.mark.parametrize(
    ("cluster", "user", "more"),
    [
        (SERVER, {"exec": {"command": "x"}}, {}),
        (SERVER, {"auth-provider": {"name": "oidc"}}, {}),
        (SERVER, {"token": "a", "tokenFile": "b"}, {}),
        (SERVER, {"token": ""}, {}),
        (SERVER, {"client-certificate-data": "eA==", "client-key-data": "eA=="}, {}),
        ({**SERVER, "certificate-authority-data": "eA=="}, TOKEN, {}),
        ({**SERVER, "proxy-url": "http://proxy"}, TOKEN, {}),
        ({}, TOKEN, {}),
        (SERVER, TOKEN, {"current-context": "three"}),
        (SERVER, TOKEN, {"contexts": None}),
        (SERVER, TOKEN, {"users": [{"name": "u", "user": TOKEN}, {"name": "u", "user": TOKEN}]}),
    ],
)
def test_everything_else_is_left_to_the_official_client(written, cluster, user, more):
    assert plain_access(written(cluster, user, **more), None) is None


def test_several_files_are_left_to_the_official_client(written):
    path = written(SERVER, TOKEN)
    assert plain_access(f"{path}:{path}", None) is None

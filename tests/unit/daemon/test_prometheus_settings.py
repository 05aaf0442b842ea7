"""The settings of Prometheus servers, in which no secret is shown."""

import pytest

from wharfinger.daemon.settings import read_settings, settings_text
from wharfinger.errors import UsageError

HEAD = "apiVersion: config.wharfinger.dev/v1alpha1\nkind: WharfingerConfiguration\n"


def read(folder, text):
    (folder / "wharf.yaml").write_text(HEAD + text)
    return read_settings(str(folder / "wharf.yaml"))


def test_files_are_taken_from_the_folder_of_the_settings(tmp_path):
    settings = read(
        tmp_path,
        """prometheus:
  default:
    url: https://prometheus:9090/prefix
    basicAuth: {username: me, passwordFile: password}
    headers: {X-Scope-OrgID: "1"}
    headerFiles: {X-Tenant: tenant}
    tls: {caFile: ca.crt, certFile: tls.crt, keyFile: /etc/tls.key}
    timeout: 1m30s
  other: {url: "http://other", bearerTokenFile: token}
""",
    )
    server = settings.prometheus["default"].server("default")
    assert (server.username, server.password_file, server.timeout) == ("me", str(tmp_path / "password"), 90.0)
    assert (server.ca_file, server.cert_file, server.key_file) == (str(tmp_path / "ca.crt"), str(tmp_path / "tls.crt"), "/etc/tls.key")
    assert (server.headers, server.header_files) == ({"X-Scope-OrgID": "1"}, {"X-Tenant": str(tmp_path / "tenant")})
    assert settings.prometheus["other"].server("other").token_file == str(tmp_path / "token")


def test_settings_that_are_written_are_equal(tmp_path):
    settings = read(tmp_path, "prometheus: {default: {url: 'http://x', bearerTokenFile: token, tls: {insecureSkipVerify: true}}}\n")
    again = tmp_path / "again"
    again.mkdir()
    (again / "wharf.yaml").write_text(settings_text(settings))
    assert read_settings(str(again / "wharf.yaml")) == settings


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("{url: 'prometheus:9090'}", "expected a URL such as"),
        ("{url: 'ftp://x'}", "expected a URL such as"),
        ("{url: 'http://me:geheim@x'}", "basicAuth.passwordFile"),
        ("{url: 'http://x?query=1'}", "without a query"),
        ("{url: 'http://x:99999'}", "expected a port"),
        ("{url: 'http://x:0'}", "expected a port"),
        ("{url: 'http://x:90:91'}", "expected a port"),
        ("{url: 'http://[::1'}", "expected a URL such as"),
        ("{url: ' http://x '}", "expected a URL such as"),
        ("{url: 'http://x y'}", "expected a URL such as"),
        ("{url: 'http://x/api/v1/'}", "the path before /api/v1 only"),
        ("{url: 'http://x', headers: {'X Org': a}}", "is not the name of a header"),
        ("{url: 'http://x', headers: {'Authorization ': geheim}}", "is not the name of a header"),
        ("{url: 'http://x', headerFiles: {'X-Ö': a}}", "is not the name of a header"),
        ("{url: 'http://x', headerFiles: {X-Org: ''}}", "which file has the content of X-Org?"),
        ('{url: "http://x", headers: {X-Org: "a\\nb"}}', "expected one line of plain ASCII for X-Org"),
        ("{url: 'http://x', headers: {X-Org: 'ü'}}", "expected one line of plain ASCII for X-Org"),
        ("{url: 'http://x', headers: {Content-Length: '7'}}", "is set for each request"),
        ("{url: 'http://x', headers: {X-Auth-Token: geheim}}", "headerFiles"),
        ("{url: 'http://x', headers: {X-Org: a}, headerFiles: {x-org: b}}", "the header x-org is given twice"),
        ("{url: 'http://x', basicAuth: {username: 'me:geheim', passwordFile: b}}", "no colon"),
        ("{url: 'http://x', headers: {Authorization: geheim}}", "headerFiles"),
        ("{url: 'http://x', headers: {cookie: geheim}}", "headerFiles"),
        ("{url: 'http://x', bearerTokenFile: a, basicAuth: {username: a, passwordFile: b}}", "give one of"),
        ("{url: 'http://x', bearerTokenFile: a, headerFiles: {authorization: b}}", "give one of"),
        ("{url: 'http://x', basicAuth: {username: a}}", "passwordFile"),
        ("{url: 'http://x', tls: {keyFile: a}}", "keyFile needs a certFile"),
        ("{url: 'http://x', tls: {caFile: a, insecureSkipVerify: true}}", "has no effect"),
        ("{url: 'http://x', timeout: 0s}", "timeout"),
        ("{url: 'http://x', token: geheim}", "token"),
    ],
)
def test_faults_are_reported_without_the_secret(tmp_path, server, said):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, f"prometheus: {{default: {server}}}\n")
    assert said in str(caught.value)
    assert "wharf.yaml: prometheus.default" in str(caught.value)
    assert "geheim" not in str(caught.value)

"""Answers of Prometheus servers, and the samples made from them."""

import json
import socket
import ssl
import threading

import pytest

from tests.unit.web.certificates import signed_by_itself
from wharfinger.language.semantics.types import Kind as Measured
from wharfinger.model.objects import Node
from wharfinger.model.objects.metadata import ObjectMeta
from wharfinger.signals.mapping import NodeNames
from wharfinger.signals.prometheus import Prometheus
from wharfinger.signals.query import Query
from wharfinger.signals.refreshing import Kind, SignalFailed

from .scripted import body, scripted, vector

NODES = NodeNames(1, ["a", "b"], [Node(metadata=ObjectMeta(name=name)) for name in "ab"])


def query(text="load", **options):
    given = {"key": "k", "kind": Measured.PERCENT, "source": "prometheus", "server": "default", "node": "instance", "refresh": 15.0}
    return Query(text=text, **{**given, **options})


def measured(server, asked=None):
    return Prometheus([server]).measured(asked or query(), NODES)


@pytest.fixture
def endpoint():
    with scripted() as running:
        yield running


def failure(endpoint, asked=None, **options):
    with pytest.raises(SignalFailed) as caught:
        measured(endpoint.server(**options), asked)
    return caught.value


def test_an_answer_becomes_samples(endpoint):
    endpoint.answer = lambda _query: (200, vector({"a:9100": "0.25", "b:9100": "0.5"}))
    found = measured(endpoint.server())
    assert found.samples == {"a": (0.25, 1_700_000_000.0), "b": (0.5, 1_700_000_000.0)}
    path, text, headers = endpoint.asked[0]
    assert (path, text, "Authorization" in headers) == ("/api/v1/query", "load", False)


def test_a_path_before_the_api_is_kept(endpoint):
    endpoint.url += "/tenant/prometheus/"
    measured(endpoint.server())
    assert endpoint.asked[0][0] == "/tenant/prometheus/api/v1/query"


def test_times_come_from_a_query_of_their_own(endpoint):
    endpoint.answer = lambda text: (200, vector({"a": "1699999990", "x": "1"} if text == "when" else {"a": "0.25", "b": "0.5"}))
    found = measured(endpoint.server(), query(times="when"))
    assert found.samples == {"a": (0.25, 1_699_999_990.0)}  # the time of b is not known
    assert found.invalid.count == 1


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "abc", ""])
def test_a_value_that_is_no_number_is_left_out(endpoint, text):
    endpoint.answer = lambda _query: (200, vector({"a": text, "b": "0.5"}))
    found = measured(endpoint.server())
    assert list(found.samples) == ["b"]
    assert found.invalid.count == 1


def test_a_histogram_is_left_out(endpoint):
    histogram = {"metric": {"instance": "a"}, "histogram": [1.0, {"count": "1", "sum": "2"}]}
    endpoint.answer = lambda _query: (200, body("vector", [histogram]))
    assert measured(endpoint.server()).invalid.count == 1


@pytest.mark.parametrize(
    ("kind", "result", "said"),
    [
        ("scalar", [1.0, "3"], "one number for all nodes"),
        ("string", [1.0, "hello"], "gives a text"),
        ("matrix", [{"metric": {}, "values": [[1.0, "3"]]}], "has a range"),
    ],
)
def test_results_that_are_no_value_per_node_fail(endpoint, kind, result, said):
    endpoint.answer = lambda _query: (200, body(kind, result))
    found = failure(endpoint)
    assert found.kind is Kind.ANSWER
    assert said in str(found)


@pytest.mark.parametrize(
    "content",
    ["", "<html>", "[]", "{}", '{"status":"error"}', '{"status":"success","data":{"resultType":"vector","result":[{"value":1}]}}'],
)
def test_malformed_answers_fail(endpoint, content):
    endpoint.answer = lambda _query: (200, content)
    assert failure(endpoint).kind is Kind.ANSWER


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Kind.QUERY),
        (401, Kind.CREDENTIALS),
        (403, Kind.CREDENTIALS),
        (422, Kind.QUERY),
        (429, Kind.OVERLOADED),
        (500, Kind.SERVER),
        (503, Kind.OVERLOADED),
        (404, Kind.ANSWER),
    ],
)
def test_a_refusal_says_why_and_is_asked_once(endpoint, status, kind):
    endpoint.answer = lambda _query: (status, json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error at char 5"}))
    found = failure(endpoint)
    assert found.kind is kind
    assert str(found) == f"{endpoint.url} answers {status}: parse error at char 5"
    assert len(endpoint.asked) == 1


def test_a_redirect_is_not_followed(endpoint):
    endpoint.answer = lambda _query: (302, "")
    assert "redirects are not followed" in str(failure(endpoint))


def test_a_token_is_read_for_every_question(endpoint, tmp_path):
    token = tmp_path / "token"
    prometheus = Prometheus([endpoint.server(token_file=str(token))])
    for text in ("first\n", "second"):
        token.write_text(text)
        prometheus.measured(query(), NODES)
    assert [headers["Authorization"] for _, _, headers in endpoint.asked] == ["Bearer first", "Bearer second"]


def test_a_password_and_headers_come_from_files(endpoint, tmp_path):
    (tmp_path / "password").write_text("geheim ü\n")
    (tmp_path / "tenant").write_text("blue\n")
    options = {"username": "me", "password_file": str(tmp_path / "password"), "header_files": {"X-Tenant": str(tmp_path / "tenant")}}
    measured(endpoint.server(**options, headers={"X-Scope-OrgID": "1"}))
    headers = endpoint.asked[0][2]
    assert headers["Authorization"] == "Basic bWU6Z2VoZWltIMO8"
    assert (headers["X-Tenant"], headers["X-Scope-OrgID"]) == ("blue", "1")


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("", "empty"), ("a\nb", "more than one line")])
def test_a_token_that_cannot_be_sent_fails(endpoint, tmp_path, content, said):
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    found = failure(endpoint, token_file=str(path))
    assert found.kind is Kind.CREDENTIALS
    assert said in str(found)
    assert not endpoint.asked


def test_a_closed_port_is_unreachable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with scripted() as endpoint:
        endpoint.url = url
        found = failure(endpoint)
    assert found.kind is Kind.UNREACHABLE
    assert str(found).startswith(f"cannot reach {url}: [Errno ")
    assert str(found).endswith("] Connection refused")


def test_a_name_without_an_address_is_unreachable(endpoint):
    endpoint.url = "http://prometheus.invalid:9090"
    assert failure(endpoint).kind is Kind.UNREACHABLE


def test_silence_is_a_timeout(endpoint):
    enough = threading.Event()
    endpoint.answer = lambda _query: lambda _handler: enough.wait(20)
    assert failure(endpoint, timeout=0.2).kind is Kind.TIMEOUT
    enough.set()


def test_a_byte_now_and_then_is_a_timeout(endpoint):
    enough = threading.Event()

    def drip(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(400):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            if enough.wait(0.05):
                return

    endpoint.answer = lambda _query: drip
    assert failure(endpoint, timeout=0.3).kind is Kind.TIMEOUT
    enough.set()


def test_half_an_answer_fails(endpoint):
    def half(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"status"')
        handler.close_connection = True

    endpoint.answer = lambda _query: half
    assert failure(endpoint).kind in {Kind.UNREACHABLE, Kind.ANSWER}


def test_an_answer_without_end_is_cut_off(endpoint):
    endpoint.answer = lambda _query: (200, b" " * 3_000_000)
    found = failure(endpoint, max_bytes=2**20)
    assert found.kind is Kind.ANSWER
    assert "longer than 1 MiB" in str(found)


def test_fifty_thousand_series_are_read(endpoint):
    endpoint.answer = lambda _query: (200, vector({f"pod-{number}": "1" for number in range(50_000)} | {"a": "0.5"}))
    found = measured(endpoint.server())
    assert (found.n_series, found.unmatched.count, found.samples) == (50_001, 50_000, {"a": (0.5, 1_700_000_000.0)})


def test_a_server_that_is_not_in_the_settings(endpoint):
    found = failure(endpoint, query(server="other"))
    assert found.kind is Kind.SETTINGS
    assert str(found) == "the settings name no Prometheus server `other` (they name default)"


def served_over_tls(folder, **names):
    certificate, key = signed_by_itself(folder, **names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def wrapped(plain):
        return context.wrap_socket(plain, server_side=True)

    return str(certificate), scripted(wrapped)


def test_a_server_is_trusted_by_its_authority(tmp_path):
    authority, serving = served_over_tls(tmp_path)
    with serving as endpoint:
        endpoint.answer = lambda _query: (200, vector({"a": "0.25"}))
        assert measured(endpoint.server(ca_file=authority)).samples
        assert measured(endpoint.server(verify=False)).samples


def test_a_server_with_an_unknown_certificate_is_not_asked(tmp_path):
    _, serving = served_over_tls(tmp_path)
    with serving as endpoint:
        found = failure(endpoint)
        assert (found.kind, endpoint.asked) == (Kind.TLS, [])
        assert "self-signed certificate" in str(found).replace("self signed", "self-signed")
        assert str(found).endswith("; set tls.caFile to the CA to trust")


def test_a_certificate_of_another_name_is_not_trusted(tmp_path):
    authority, serving = served_over_tls(tmp_path, name="other.example.com", address="127.9.9.9")
    with serving as endpoint:
        found = failure(endpoint, ca_file=authority)
        assert (found.kind, endpoint.asked) == (Kind.TLS, [])
        assert str(found).endswith("; the URL has to use a name of the certificate")


def test_a_bundle_of_certificates_that_is_not_there(endpoint):
    assert failure(endpoint, ca_file="/nowhere/ca.crt", cert_file="/nowhere/tls.crt").kind in {Kind.SETTINGS, Kind.TLS}

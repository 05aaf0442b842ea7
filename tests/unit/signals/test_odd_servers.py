"""Servers that violate the protocol: each query ends in time, with a one-sentence error that contains no secret."""

import gzip
import json
import time

import pytest

from wharfinger.signals.refreshing import Kind

from .scripted import body, scripted, vector
from .test_prometheus import failure, measured, query

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def endpoint():
    with scripted() as running:
        yield running


PIECES = 200


def dripping(head, piece, sent):
    """The handler of a server that sends a piece now and then, and records it."""

    def drip(handler):
        handler.wfile.write(head)
        for _ in range(PIECES):
            handler.wfile.write(piece)
            sent.append(piece)
            time.sleep(0.05)

    return lambda _query: drip


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"", b"H"),
        (OK, b"X"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1;x"),
        (OK + b"Content-Length: 5000\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10], b"\x00\x00\x00\xff\xff"),
    ],
    ids=["status line", "header", "continue", "chunk", "empty blocks of gzip"],
)
def test_each_part_of_an_answer_has_a_timeout(endpoint, head, piece):
    sent = []
    endpoint.answer = dripping(head, piece, sent)
    assert failure(endpoint, timeout=0.3).kind is Kind.TIMEOUT
    assert len(sent) < PIECES  # the answer was not read to its end


def test_a_connection_is_kept_for_the_next_question(endpoint):
    connections = set()

    def answered(handler):
        connections.add(handler.client_address)
        content = vector({"a": "0.25"}).encode()
        handler.wfile.write(OK + b"Content-Length: %d\r\n\r\n" % len(content) + content)

    endpoint.answer = lambda _query: answered
    found = measured(endpoint.server(timeout=5.0), query(times="when"))
    assert (found.n_series, len(connections)) == (1, 1)


@pytest.mark.parametrize(
    "content",
    [
        b'{"status":"success","data":{"resultType":"vector","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"a\xff"},"value":[1,"1"]}]}}',
    ],
    ids=["deep result", "deep elsewhere", "no text"],
)
@pytest.mark.parametrize("status", [200, 400])
def test_undecodable_answers_are_failures(endpoint, content, status):
    endpoint.answer = lambda _query: (status, content)
    found = failure(endpoint)
    assert found.kind is (Kind.ANSWER if status == 200 else Kind.QUERY)
    assert str(found).startswith(endpoint.url)


@pytest.mark.parametrize("content", ["<!DOCTYPE html>", ""])
def test_another_document_is_named_with_its_server(endpoint, content):
    endpoint.answer = lambda _query: (200, content)
    said = str(failure(endpoint))
    assert said.startswith(endpoint.url)
    assert "is that the URL of a Prometheus, with the path before /api/v1?" in said


def test_a_page_that_is_not_there_asks_for_the_path(endpoint):
    endpoint.answer = lambda _query: (404, "404 page not found")
    assert "with the path before /api/v1?" in str(failure(endpoint))


def test_an_error_with_the_status_of_success_is_reported(endpoint):
    endpoint.answer = lambda _query: (200, json.dumps({"status": "error", "errorType": "execution", "error": "too many samples"}))
    assert "too many samples" in str(failure(endpoint))


def test_null_counts_as_absent(endpoint):
    endpoint.answer = lambda _query: (
        200,
        json.dumps({"status": "success", "warnings": None, "data": {"resultType": "vector", "result": None}}),
    )
    assert measured(endpoint.server()).n_series == 0


def test_warnings_of_the_server_are_kept(endpoint):
    endpoint.answer = lambda _query: (200, json.dumps({**json.loads(vector({"a": "1"})), "warnings": ["a store is down"]}))
    assert list(measured(endpoint.server()).warnings) == ["a store is down"]


def test_a_server_ends_no_line_of_ours(endpoint):
    endpoint.answer = lambda _query: (422, json.dumps({"error": "one\nwharf: two \x1b[31m" + "x" * 1000}))
    said = str(failure(endpoint))
    assert said.isprintable()
    assert len(said) < 400
    endpoint.answer = lambda _query: (200, vector({"a\n\x1b[31m" + "x" * 1000: "1"}))
    example = measured(endpoint.server()).unmatched.example
    assert example.isprintable()
    assert len(example) < 300


@pytest.mark.parametrize(
    "options", [{"token_file": "secret"}, {"username": "me", "password_file": "secret"}, {"header_files": {"X-Key": "secret"}}]
)
def test_a_secret_that_a_server_sends_back_is_not_shown(endpoint, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("geheim")
    endpoint.answer = lambda _query: _sends_back
    said = str(failure(endpoint, **options))
    assert "answers 401: I got" in said
    assert "geheim" not in said
    assert "bWU6Z2VoZWlt" not in said  # me:geheim


def _sends_back(handler):
    got = " ".join(f"{name}={value}" for name, value in handler.headers.items())
    content = json.dumps({"error": f"I got {got}"}).encode()
    handler.wfile.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n" % len(content) + content)


@pytest.mark.parametrize(
    ("content", "said"), [("geheim\N{SNOWMAN}", "characters"), ("ge\theim", "characters"), ("g" * 100_000, "too long")]
)
def test_a_token_that_no_header_can_carry(endpoint, tmp_path, content, said):
    (tmp_path / "token").write_text(content)
    found = failure(endpoint, token_file=str(tmp_path / "token"))
    assert found.kind is Kind.CREDENTIALS
    assert said in str(found)
    assert "geheim" not in str(found)


def test_a_header_that_cannot_be_sent_is_a_failure(endpoint):
    assert failure(endpoint, headers={"X-Org": "\N{SNOWMAN}"}).kind is Kind.CREDENTIALS


def test_https_to_a_server_without_tls(endpoint):
    endpoint.url = endpoint.url.replace("http:", "https:")
    found = failure(endpoint)
    assert found.kind is Kind.TLS
    assert "does not speak TLS" in str(found)
    assert "is it http://?" in str(found)


def test_a_bundle_that_is_none_is_named(endpoint, tmp_path):
    (tmp_path / "ca.crt").write_text("no certificate")
    endpoint.url = endpoint.url.replace("http:", "https:")
    assert str(tmp_path / "ca.crt") in str(failure(endpoint, ca_file=str(tmp_path / "ca.crt")))


def test_a_sample_is_no_younger_than_its_answer(endpoint):
    endpoint.answer = lambda _query: (200, vector({"a": "0.5"}, at=time.time() + 3600))
    found = measured(endpoint.server())
    assert found.samples["a"][1] <= time.time()
    assert found.ahead.count == 1
    assert found.ahead.example.startswith("a, 3,")


def test_times_in_milliseconds_are_none(endpoint):
    endpoint.answer = lambda text: (200, vector({"a": "1699999990000" if text == "when" else "0.25"}))
    found = measured(endpoint.server(), query(times="when"))
    assert not found.samples
    assert "time of measurement is not known" in found.invalid.example


def test_a_broken_compression_counts_as_an_answer(endpoint):
    def packed(handler):
        handler.wfile.write(OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone")

    endpoint.answer = lambda _query: packed
    assert failure(endpoint).kind is Kind.ANSWER


def test_no_data_is_no_vector(endpoint):
    endpoint.answer = lambda _query: (200, body("vector", []).replace('{"resultType": "vector", "result": []}', "null"))
    assert failure(endpoint).kind is Kind.ANSWER

"""Answers of HTTP/1.1, split at any byte."""

from __future__ import annotations

import pytest

from wharfinger.kube.http_connections import AnswerReader, NotHttp

ANSWERS = {
    "with a length": (b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello", 201, b"hello"),
    "in any case": (b"HTTP/1.1 200 OK\r\ncontent-LENGTH:2\r\n\r\nok", 200, b"ok"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "without a body": (b"HTTP/1.1 204 No Content\r\nAudit-Id: x\r\n\r\n", 204, b""),
    "in chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n", 200, b"hello world"),
    "with a trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", 200, b"ok"),
    "after an interim one": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
}


@pytest.mark.parametrize(("content", "status", "body"), ANSWERS.values(), ids=ANSWERS.keys())
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_is_complete_with_its_last_byte(content, status, body, size):
    reader = AnswerReader()
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    for _ in range(2):  # and then the next one
        answers = [reader.feed(piece) for piece in pieces]
        assert answers[:-1] == [None] * (len(pieces) - 1)
        assert (answers[-1].status, answers[-1].content, answers[-1].ends_connection) == (status, body, False)


def test_headers_for_retries_are_kept():
    answer = AnswerReader().feed(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert (answer.status, answer.retry_after, answer.ends_connection) == (429, "3", True)


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 3\r\n\r\nokay",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-a\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    ],
)
def test_malformed_answers_are_refused(content):
    with pytest.raises(NotHttp):
        AnswerReader().feed(content)


def test_bytes_after_an_answer_end_the_connection():
    answer = AnswerReader().feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200")
    assert (answer.content, answer.ends_connection) == (b"ok", True)


def test_without_a_length_an_answer_ends_with_the_connection():
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n\r\nall ") is None
    assert reader.feed(b"of it") is None
    answer = reader.end()
    assert (answer.content, answer.ends_connection) == (b"all of it", True)


@pytest.mark.parametrize("content", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"])
def test_half_an_answer_is_none(content):
    reader = AnswerReader()
    reader.feed(content)
    with pytest.raises(ConnectionError):
        reader.end()

"""Files that are not policy texts are refused in one sentence."""

import io

import pytest

from tests.unit.language.parsing import codes
from wharfinger.errors import UsageError
from wharfinger.language.files import MAX_BYTES, decode, read_source, read_stream
from wharfinger.language.report.diagnostics import Diagnostics
from wharfinger.language.report.render import FORMATS, render


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "P001"),
        (b" \n\t\r\n", "P001"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "P002"),
        (b"policy\x1b[31m", "P002"),
        ("policy".encode("utf-16"), "P002"),
        (b"policy \xff", "P003"),
        ("policy é".encode("latin-1"), "P003"),
        (b"#" * (MAX_BYTES + 1), "P004"),
    ],
)
def test_content_that_is_no_policy_text_is_refused(content, code):
    diagnostics = Diagnostics()
    assert decode(content, "x.policy", diagnostics) is None
    assert codes(diagnostics) == [code]
    for form in FORMATS:
        assert "x.policy" in render(diagnostics, form)


@pytest.mark.parametrize("content", [b"#" * MAX_BYTES, b"\xef\xbb\xbfpolicy", "é漢".encode(), b"a\r\nb\tc\x0c"])
def test_policy_texts_are_read_as_they_are(content):
    diagnostics = Diagnostics()
    source = decode(content, "x.policy", diagnostics)
    assert source.text.encode() == content.removeprefix(b"\xef\xbb\xbf")
    assert not list(diagnostics)


def test_no_more_is_read_than_the_limit_needs():
    stream = io.BytesIO(b"#" * 10_000_000)
    assert read_stream(stream, "x.policy", Diagnostics()) is None
    assert stream.tell() < MAX_BYTES + 10


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.policy").write_bytes(b"policy")
    source = read_source(tmp_path / "a.policy", Diagnostics())
    assert (source.name, source.text) == (str(tmp_path / "a.policy"), "policy")


@pytest.mark.parametrize("name", [".", "none.policy"])
def test_a_path_that_cannot_be_read_is_the_callers_mistake(tmp_path, name):
    with pytest.raises(UsageError, match="cannot read"):
        read_source(tmp_path / name, Diagnostics())

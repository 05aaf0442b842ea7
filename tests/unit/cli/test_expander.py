"""`wharf expander`: flags that do not fit. What it answers is in tests/unit/web/test_expander.py."""

import sys

import pytest

from tests.unit.web.certificates import signed_by_itself


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--listen", "8086"), "--listen 8086: expected HOST:PORT"),
        (("--listen", "127.0.0.1:²"), "--listen 127.0.0.1:²: expected HOST:PORT"),
        (("--listen", "127.0.0.1:65536"), "--listen 127.0.0.1:65536: expected HOST:PORT"),
        (("--metrics", ":http"), "--metrics :http: expected HOST:PORT"),
        (("--listen", "0.0.0.0:8086"), "it needs --certificate and --private-key"),
        (("--listen", "autoscaling.local:8086"), "it needs --certificate and --private-key"),
        (("--certificate", "tls.crt"), "--certificate and --private-key belong together"),
        (("--certificate", "none.crt", "--private-key", "none.key"), "none.crt: No such file"),
    ],
)
def test_wrong_flags_are_named(wharf, flags, message):
    code, out, err = wharf("expander", *flags)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("wrong", ["a key of another", "no PEM", "the files exchanged"])
def test_a_certificate_and_a_key_that_do_not_fit_are_named(wharf, tmp_path, wrong):
    certificate, key = signed_by_itself(tmp_path)
    if wrong == "a key of another":
        (tmp_path / "other").mkdir()
        _, key = signed_by_itself(tmp_path / "other")
    elif wrong == "no PEM":
        certificate.write_bytes(b"\x00\xff")
    else:
        certificate, key = key, certificate
    code, out, err = wharf("expander", "--certificate", certificate, "--private-key", key)
    assert (code, out) == (2, "")
    assert f"wharf: --certificate {certificate} with the key {key}: " in err
    assert err.endswith("; expected PEM, with the key of that certificate and without a password\n")


def test_without_the_library_the_extra_is_named(wharf, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, "wharfinger.web.expander", raising=False)

    code, _, err = wharf("expander")
    assert code == 2
    assert "`wharf expander` needs grpc: pip install 'wharfinger[autoscaler]'" in err

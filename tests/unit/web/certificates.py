"""Certificates for tests, made by openssl as people make them."""

import subprocess


def signed_by_itself(folder, name="localhost", address="127.0.0.1"):
    """The paths of a new certificate and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:{address}"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key

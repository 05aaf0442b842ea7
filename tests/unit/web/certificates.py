"""Certificates for tests, made by openssl as people make them."""

import subprocess

from tests.tools import needs

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def signed_by_itself(folder, name="localhost", address="127.0.0.1"):
    """The paths of a new certificate and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    made = [needs("openssl"), "req", "-x509", *_EC, "-days", "1"]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:{address}"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


class Authority:
    """A certificate authority for clients; `certificate` is the path of its own certificate."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        made = [needs("openssl"), "req", "-x509", *_EC, "-days", "1", "-subj", f"/CN={name}"]
        subprocess.run([*made, "-keyout", self._key, "-out", self.certificate], check=True, capture_output=True)

    def client(self, name):
        """The paths of a certificate for a client of that common name, and of its key."""
        certificate, key, request = (self.folder / f"{self.certificate.stem}-{name}{end}" for end in (".crt", ".key", ".csr"))
        subprocess.run(
            [needs("openssl"), "req", *_EC, "-subj", f"/CN={name}", "-keyout", key, "-out", request], check=True, capture_output=True
        )
        extensions = self.folder / "extensions"
        extensions.write_text("extendedKeyUsage=clientAuth\n")
        signing = ["-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "1", "-extfile", extensions]
        subprocess.run([needs("openssl"), "x509", "-req", "-in", request, *signing, "-out", certificate], check=True, capture_output=True)
        return certificate, key

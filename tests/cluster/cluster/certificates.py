"""Keys and certificates of a cluster: one authority, certificates for servers and for clients. By openssl."""

import subprocess
from pathlib import Path

DAYS = "3650"


def _openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


class Authority:
    """A certificate authority in a folder: ca.crt, ca.key."""

    def __init__(self, folder, name="berth-test-cluster"):
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.certificate = self.folder / "ca.crt"
        self.key = self.folder / "ca.key"
        if not self.certificate.exists():
            _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS,
                     "-subj", f"/CN={name}", "-keyout", str(self.key), "-out", str(self.certificate))

    def issue(self, name, subject, names=(), usage="clientAuth", days=DAYS):
        """NAME.crt and NAME.key. `names`: what a server is called, as "IP:127.0.0.1", "DNS:localhost"."""
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, extensions = self.folder / f"{name}.crt", self.folder / f"{name}.ext"
        lines = [f"extendedKeyUsage={usage}"] + ([f"subjectAltName={','.join(names)}"] if names else [])
        extensions.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                 "-keyout", str(key), "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self.key),
                 "-CAcreateserial", "-days", str(days), "-extfile", str(extensions), "-out", str(certificate))
        request.unlink()
        extensions.unlink()
        return certificate, key


def signing_key(folder):
    """The key that signs the tokens of service accounts: sa.key, sa.pub."""
    key, public = Path(folder) / "sa.key", Path(folder) / "sa.pub"
    if not key.exists():
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key))
        _openssl("ec", "-in", str(key), "-pubout", "-out", str(public))
    return key, public

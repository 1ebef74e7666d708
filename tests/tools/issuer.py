"""An issuer whose keys turn, and which may be gone; and certificates. `openssl` makes and uses the keys."""

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ISSUER = "https://turning.test"


class TurningIssuer:
    """Serves its keys as a JWKS document, and signs tokens with the newest one."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.is_gone = False
        self.keys: list[str] = []
        self.token = ""
        self.turn()

    def turn(self) -> None:
        """Signs with a new key from now on; the one before stays in the document."""
        name = f"key-{time.monotonic_ns()}"
        run("genpkey", "-algorithm", "ed25519", "-out", self.path(name))
        self.keys = [name, *self.keys[:1]]
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": "sluice", "sub": "tools", "iat": now, "exp": now + 4 * 3600}
        head = {"alg": "EdDSA", "kid": name}
        message = b".".join(encode(json.dumps(part).encode()) for part in (head, claims))
        self.path("message").write_bytes(message)
        signed = run("pkeyutl", "-sign", "-inkey", self.path(name), "-rawin", "-in", self.path("message"))
        self.token = f"Bearer {(message + b'.' + encode(signed)).decode()}"

    def document(self) -> bytes:
        keys = [{"kty": "OKP", "crv": "Ed25519", "kid": name, "x": self.public(name)} for name in self.keys]
        return json.dumps({"keys": keys}).encode()

    def public(self, name: str) -> str:
        # The last 32 bytes of the DER form are the key itself.
        return encode(run("pkey", "-in", self.path(name), "-pubout", "-outform", "DER")[-32:]).decode()

    def path(self, name: str) -> Path:
        return self.folder / f"issuer-{name}"

    def config(self) -> str:
        """Returns the settings of a gate that takes its tokens."""
        return f"""
[issuer.turning]
issuer = "{ISSUER}"
audience = ["sluice"]
environments = ["production"]
algorithms = ["EdDSA"]
jwks_url = "http://127.0.0.1:{self.port}/keys"
"""


@contextmanager
def start_issuer(folder: Path) -> Iterator[TurningIssuer]:
    found: list[TurningIssuer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if found[0].is_gone:
                # The connection ends without an answer.
                return
            document = found[0].document()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.append(TurningIssuer(folder, server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found[0]
    finally:
        server.shutdown()
        server.server_close()


def make_certificate(certificate: Path, key: Path) -> None:
    """Makes a certificate of this machine that signs itself; each file is replaced as a whole."""
    new_certificate, new_key = certificate.with_suffix(".new"), key.with_suffix(".new")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
    run("req", "-x509", *curve, *name, "-keyout", new_key, "-out", new_certificate)
    new_key.replace(key)
    new_certificate.replace(certificate)


def run(*words: str | Path) -> bytes:
    done = subprocess.run(["openssl", *words], capture_output=True, check=True)
    return done.stdout


def encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")

#!/bin/sh
# Prints a token for the gates of compose.yaml, valid for an hour: deploy/token.sh SUBJECT
set -eu

# The program reads the secret from its file: other users of this machine can read the arguments of processes.
exec python3 -c '
import base64, hashlib, hmac, json, pathlib, sys, time

secret = pathlib.Path(sys.argv[1]).read_text().strip().encode()
def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")
now = int(time.time())
claims = {"iss": "https://issuer.example.com", "aud": "sluice", "sub": sys.argv[2], "iat": now, "exp": now + 3600}
signed = b".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
print((signed + b"." + encoded(hmac.digest(secret, signed, hashlib.sha256))).decode())
' "$(dirname "$0")/secrets/token" "$1"

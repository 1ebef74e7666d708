#!/bin/sh
# Prints a token for the gates of compose.yaml, valid for an hour: deploy/token.sh SUBJECT
set -eu

secret=$(cat "$(dirname "$0")/secrets/token")
encoded() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
head=$(printf '{"alg":"HS256"}' | encoded)
claims=$(printf '{"iss":"https://issuer.example.com","aud":"sluice","sub":"%s","iat":%d,"exp":%d}' "$1" "$now" $((now + 3600)) | encoded)
signature=$(printf '%s.%s' "$head" "$claims" | openssl dgst -sha256 -hmac "$secret" -binary | encoded)
echo "$head.$claims.$signature"

#!/bin/sh
# Makes what compose.yaml keeps secret, in deploy/secrets. What is there already is never made anew: a lost seal key
# is a lost store.
set -eu

cd "$(dirname "$0")"
if [ -e secrets ]; then
    echo "deploy/secrets is there already" >&2
    exit 1
fi
# Containers read the files as users of their own; on this machine nobody else enters the folder.
umask 022
mkdir -m 700 secrets
password=$(openssl rand -hex 32)
openssl rand -hex 32 >secrets/token
openssl rand -hex 32 >secrets/seal
openssl rand -hex 32 >secrets/credential
printf 'redis://sluice:%s@redis:6379\n' "$password" >secrets/redis-url
sed "s/PASSWORD/$password/" redis.acl >secrets/redis-users

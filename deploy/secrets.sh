#!/bin/sh
# Creates the secrets of compose.yaml in deploy/secrets. Existing secrets are never replaced: without its seal key, a
# store cannot be read.
set -eu

cd "$(dirname "$0")"
if [ -e secrets ]; then
    echo "deploy/secrets already exists" >&2
    exit 1
fi
# Containers read the files as other users; on this machine, only the owner can enter the folder.
umask 022
mkdir -m 700 secrets
password=$(openssl rand -hex 32)
openssl rand -hex 32 >secrets/token
openssl rand -hex 32 >secrets/seal
openssl rand -hex 32 >secrets/credential
printf 'redis://sluice:%s@redis:6379\n' "$password" >secrets/redis-url
# Every user of the machine can read the arguments of a program, so the shell itself puts the password in.
while IFS= read -r line; do
    case $line in
    *PASSWORD*) printf '%s%s%s\n' "${line%%PASSWORD*}" "$password" "${line#*PASSWORD}" ;;
    *) printf '%s\n' "$line" ;;
    esac
done <redis.acl >secrets/redis-users

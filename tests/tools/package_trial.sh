#!/bin/sh
# Installs, runs, upgrades, removes and purges the package /root/sluice.deb, in a root of its own: see package.py.
# It prints what it has seen; the first thing that is not as it must be ends it.

# Commands stand in quotes: they run later.
# shellcheck disable=SC2016
set -eu

# The second word is a command.
expect() {
    if ! eval "$2"; then
        echo "NOT SO: $1"
        exit 1
    fi
    echo "$1"
}

dpkg --install /root/sluice.deb >/root/install.log 2>&1 || {
    cat /root/install.log
    exit 1
}
expect "the user of the gate exists" 'getent passwd sluice >/dev/null'
expect "others cannot read the secrets" '[ "$(stat --format %a /etc/sluice/token.secret)" = 640 ]'
expect "the first configuration has no error" 'runuser --user sluice -- sluice check --config /etc/sluice/sluice.toml >/dev/null'

cd /var/lib/sluice
runuser --user sluice -- sluice store create --config /etc/sluice/sluice.toml >/dev/null
runuser --user sluice -- sluice serve --config /etc/sluice/sluice.toml >/root/serve.log 2>&1 &
gate=$!
curl --silent --fail --retry 60 --retry-delay 1 --retry-all-errors --output /dev/null http://127.0.0.1:9090/readyz || {
    cat /root/serve.log
    exit 1
}
expect "the gate runs under its own user" '[ -n "$(pgrep --exact --euid sluice sluice)" ]'
pkill --exact --euid sluice sluice
wait "$gate" || true

echo '# mine' >>/etc/sluice/sluice.toml
dpkg --install /root/sluice.deb >/dev/null 2>&1
expect "an upgrade keeps the configuration" 'tail -n 1 /etc/sluice/sluice.toml | grep --quiet mine'
dpkg --remove sluice >/dev/null 2>&1
expect "removing leaves configuration and data" '[ -e /etc/sluice/sluice.toml ] && [ -e /var/lib/sluice/store ]'
expect "removing takes the program away" '! [ -e /usr/bin/sluice ]'
dpkg --purge sluice >/dev/null 2>&1
expect "a purge keeps records of payments and their keys" '[ -e /var/lib/sluice/store ] && [ -e /etc/sluice ]'

rm -r /etc/sluice /var/lib/sluice
dpkg --install /root/sluice.deb >/dev/null 2>&1
dpkg --purge sluice >/dev/null 2>&1
expect "a purge without records removes everything" '! [ -e /etc/sluice ] && ! [ -e /var/lib/sluice ]'

"""Alerts, recording rules and the dashboard, as a real Prometheus sees them: `python tests/tools/prometheus.py SLUICE`.

promtool reads the rules, tests them, and judges the metrics. A Prometheus
scrapes a gate that answers calls of every kind: every query of the dashboard,
of alerts and of recording rules is answered, and has data where it always
should. Then things go wrong, and the alert of each fires: a call in doubt, a
hold that expires soon, a disk that takes no more of the audit chain, a Redis
that is gone, a gate that is gone. The shipped files are used, with less
patience. What may have no data says `Empty` in its description.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import yaml

import gate
from gate import simulator
from kill import free_port
from nodes import Redis
from report import Report

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = ["recording.yml", "alerts.yml"]
PATIENCE_SECONDS = 60
WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
POLICIES = """
[value]
slippage = "1%"

[group.finance]
members = ["people:finance-1", "people:finance-2"]

[approval.soon]
all = [{ of = "finance", n = 1 }]
expires = "10m"

[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }

[[rule]]
id = "large"
effect = "hold"
approval = "soon"
when = { op = ["createSwap"], environment = ["production"], amount = "[1000, 5000] USD" }

[[rule]]
id = "too-large"
effect = "deny"
when = { op = ["createSwap"], amount = "(5000, inf) USD" }

[[limit]]
id = "a-day"
ops = ["createSwap"]
window = "rolling 24h"
max = "100000 USD"
over = "deny"

[[limit]]
id = "calls-a-day"
ops = ["createSwap"]
window = "rolling 24h"
max = "10000 calls"
over = "deny"

[[rate]]
id = "each-caller"
ops = ["*"]
per = ["caller"]
quota = "100/s burst 200"
shared = true
"""
CONFIG = """
[store]
kind = "redis"
node = "watched"

[redis]
url = "redis://127.0.0.1:{redis}"
allow_unsafe = true
timeout_ms = 5_000

[timeouts]
answer_ms = 1_000

[reconcile]
first_look_ms = 1_000

[console]
listen = "127.0.0.1:0"
issuer = "people"

[issuer.people]
issuer = "https://people.test"
audience = ["sluice"]
environments = []
algorithms = ["HS256"]
roles = "roles"
shared_secret = "{secret}"
"""


class Watched:
    """A gate whose files may be bounded, as a disk that is full bounds them."""

    def __init__(self, process, addresses):
        self.child, self.addresses = process.child, addresses

    def call(self, method, path, body=None, where="production", token=None, **headers):
        host, port = self.addresses[where].rsplit(":", 1)
        connection = HTTPConnection(host, int(port), timeout=20)
        headers["Authorization"] = token or gate.TOKEN
        if body is not None:
            headers["Content-Type"], body = "application/json", json.dumps(body)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text

    def swap(self, name, amount="7"):
        source = {"chain": "POLYGON", "currency": "usdt", "amount": amount}
        destination = {"chain": "POLYGON", "currency": "usdc", "walletAddress": WALLET}
        body, came = {"requestId": name, "source": source, "destination": destination}, []

        def is_told():
            came[:] = self.call("POST", "/v2/wallets/swaps", body)
            return "STORE_UNAVAILABLE" not in came[1]

        # A machine that is busy may be late; then one asks again.
        until(is_told)
        return came

    def metrics(self):
        return self.call("GET", "/metrics", where="probes")[1]

    def fill_disk(self):
        """No file of it grows any more."""
        resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def empty_disk(self):
        resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def watched(binary, upstream, redis, folder):
    # What people release is sent with it. Nothing goes to the sandbox.
    text = gate.configuration(upstream, "127.0.0.1:9").replace("[production]", '[production]\ncredential = "watched"')
    text += CONFIG.format(redis=redis.port, secret=gate.SECRET)
    (folder / "policies").mkdir()
    (folder / "policies" / "watched.toml").write_text(POLICIES, encoding="utf-8")
    (folder / "sluice.toml").write_text(text, encoding="utf-8")
    # A limit on files must meet it as an error, as a full disk does, not as a signal: Python ignores that, and so does
    # what it starts, if it is let.
    command = [binary, "serve", "--config", folder / "sluice.toml"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, restore_signals=False)
    process, addresses = gate.Process(child), {}

    def listens(line):
        if line.get("message") == "listening for people":
            addresses["console"] = line["address"]
        gate.listens(line, addresses)
        return len(addresses) == 4

    try:
        lines = process.until(listens)
        if len(addresses) < 4:
            raise RuntimeError(f"the gate does not serve: {lines}")
        yield Watched(process, addresses)
    finally:
        child.kill()
        child.wait()


class Prometheus:
    """The real one, on the shipped rules, with less patience."""

    def __init__(self, folder, target):
        self.folder, self.port = folder, free_port()
        for name in RULES:
            text = (DEPLOY / "prometheus" / name).read_text(encoding="utf-8")
            (folder / name).write_text(re.sub(r"^(\s+for): .*$", r"\1: 1s", text, flags=re.M), encoding="utf-8")
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    @contextmanager
    def run(self):
        arguments = ["--config.file", self.folder / "prometheus.yml", "--storage.tsdb.path", self.folder / "data"]
        arguments += ["--web.listen-address", f"127.0.0.1:{self.port}"]
        with open(self.folder / "log", "w", encoding="utf-8") as log:
            child = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log)
        try:
            yield
        finally:
            child.terminate()
            child.wait(20)

    def ask(self, path, **query):
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answer = json.loads(connection.getresponse().read())
            connection.close()
        except (OSError, ValueError) as error:
            return {"status": "error", "error": str(error)}
        return answer

    def query(self, text):
        """What is wrong with it, and how many lines it has."""
        answer = self.ask("query", query=text)
        return answer.get("error", ""), len(answer.get("data", {}).get("result", []))

    def firing(self):
        alerts = self.ask("alerts").get("data", {}).get("alerts", [])
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def until(is_so, seconds=PATIENCE_SECONDS):
    """Whether it became so in time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def promtool(report, what, arguments, stdin=None):
    done = subprocess.run(["promtool", *arguments], cwd=DEPLOY / "prometheus", input=stdin, capture_output=True, text=True)
    silent = stdin is None or not (done.stdout + done.stderr).strip()
    report.check(what, "" if done.returncode == 0 and silent else done.stdout + done.stderr)


def traffic(gate_):
    """A little of everything; what answers stand for is tested elsewhere."""
    operator = "Bearer " + gate.token("ops-1", issuer="https://people.test", roles=["operator"])
    for at in range(20):
        gate_.call("GET", "/v2/offramps?limit=2")
        gate_.swap(f"watched-{at}")
    gate_.swap("watched-0")
    gate_.swap("watched-denied", "90000")
    gate_.call("GET", "/nowhere")
    gate_.call("GET", "/v2/users", token="Bearer nonsense")
    gate_.call("GET", "/sluice/v1/freezes", where="console", token=operator)


def fail_once(upstream):
    """The next swap is answered by what proves nothing."""
    host, port = upstream.rsplit(":", 1)
    connection = HTTPConnection(host, int(port), timeout=10)
    fault = {"operation": "createSwap", "kind": "html500", "effect": False, "times": 1}
    connection.request("POST", "/simulator/faults", json.dumps(fault), {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()


def check_queries(report, prometheus):
    dashboard = json.loads((DEPLOY / "grafana" / "sluice.json").read_text(encoding="utf-8"))
    # What a recording rule makes of a rate takes two scrapes and an evaluation.
    for panel in dashboard["panels"]:
        may_be_empty = "Empty" in panel.get("description", "")
        for target in panel.get("targets", []):
            wrong, lines = "", 0

            def answered():
                nonlocal wrong, lines
                wrong, lines = prometheus.query(target["expr"])
                return wrong or lines or may_be_empty

            until(answered, 30)
            empty = "" if lines or may_be_empty else "no data"
            report.check(f"dashboard, {panel['title']}: {target['expr']}", wrong or empty)
    for name in RULES:
        for group in yaml.safe_load((DEPLOY / "prometheus" / name).read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                wrong, lines = prometheus.query(rule["expr"])
                empty = "" if lines or "alert" in rule else "no data"
                report.check(f"{rule.get('alert') or rule.get('record')}", wrong or empty)


def check_firing(report, prometheus, gate_, redis, upstream):
    def fires(name, why):
        fired = until(lambda: name in prometheus.firing())
        report.check(f"{name} fires: {why}", "" if fired else f"only {sorted(prometheus.firing())} do")

    def ends(name):
        ended = until(lambda: name not in prometheus.firing())
        report.check(f"{name} ends", "" if ended else "it still fires")

    quiet = {"SluiceNodesDiffer", "SluiceStoreAway", "SluiceAuditFailing", "SluiceInDoubt", "SluiceHoldExpires", "SluiceDown"}
    report.check("nothing fires before", ", ".join(sorted(quiet & prometheus.firing())))

    fail_once(upstream)
    status, text = gate_.swap("watched-in-doubt")
    report.check("nobody knows what became of a swap", "" if "OUTCOME_UNKNOWN" in text else f"{status} {text}")
    fires("SluiceInDoubt", "a call is in doubt")

    status, text = gate_.swap("watched-held", "2000")
    report.check("a swap waits for people", "" if status == 202 else f"{status} {text}")
    fires("SluiceHoldExpires", "it expires in ten minutes")

    gate_.fill_disk()
    status, text = gate_.swap("watched-unwritten")
    report.check("nothing is sent whose entry is not on disk", "" if "AUDIT_UNAVAILABLE" in text else f"{status} {text}")
    fires("SluiceAuditFailing", "the disk is full")
    gate_.empty_disk()
    ends("SluiceAuditFailing")
    report.check("money moves again", "" if gate_.swap("watched-unwritten")[0] == 201 else "it does not")

    redis.kill()
    fires("SluiceStoreAway", "the Redis is gone")
    fires("SluiceSharedRatesAway", "the Redis is gone")
    redis.start()
    ends("SluiceStoreAway")

    gate_.child.kill()
    fires("SluiceDown", "the gate is gone")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sluice")
    binary = parser.parse_args().sluice
    report = Report()
    promtool(report, "the rules can be read", ["check", "rules", *RULES])
    promtool(report, "the configuration can be read", ["check", "config", "prometheus.yml"])
    promtool(report, "the rules' own tests", ["test", "rules", "alerts_test.yml"])
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        folders = [Path(folder) / name for name in ("gate", "redis", "prometheus")]
        for one in folders:
            one.mkdir()
        redis = Redis(folders[1])
        try:
            with simulator(binary) as upstream, watched(binary, upstream, redis, folders[0]) as gate_:
                prometheus = Prometheus(folders[2], gate_.addresses["probes"])
                with prometheus.run():
                    scraped = until(lambda: prometheus.query("sluice_store_up == 1")[1] == 1)
                    report.check("a gate is scraped", "" if scraped else (folders[2] / "log").read_text(encoding="utf-8"))
                    traffic(gate_)
                    # What grows is seen where something was there before it grew.
                    until(lambda: prometheus.query("sum(sluice_requests_total) > 10")[1] == 1)
                    traffic(gate_)
                    promtool(report, "its metrics are as they should be", ["check", "metrics"], gate_.metrics())
                    check_queries(report, prometheus)
                    check_firing(report, prometheus, gate_, redis, upstream)
        finally:
            redis.kill()
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

"""Checks alerts, recording rules and the dashboard with a real Prometheus.

Usage: `python tests/tools/prometheus.py SLUICE`.

promtool reads the rules, tests them, and checks the metrics. A Prometheus scrapes a gate that handles calls of every
kind: it must answer every query of the dashboard, the alerts and the recording rules, with data wherever there should
always be some. Panels that may be empty say `Empty` in their description. Then faults follow, and the alert of each
must fire: a call of unknown outcome, a hold that expires soon, a full disk under the audit log, a Redis that is down, a
gate that is down. The shipped files are used, with shorter waiting times.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml

from gate import (
    TOKEN,
    LogLine,
    Program,
    create_store,
    free_port,
    gate_config,
    make_token,
    note_address,
    start_simulator,
    wait_until,
)
from nodes import Redis
from people import PEOPLE, people_config
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
"""


class Response(NamedTuple):
    status: int
    text: str


class ScrapedGate:
    """The gate that Prometheus scrapes. Its files can be limited as a full disk limits them."""

    def __init__(self, child: "subprocess.Popen[str]", addresses: dict[str, str]) -> None:
        self.child = child
        self.addresses = addresses

    def call(
        self, method: str, path: str, body: object = None, where: str = "production", token: str = TOKEN
    ) -> Response:
        host, port = self.addresses[where].rsplit(":", 1)
        connection = HTTPConnection(host, int(port), timeout=20)
        headers = {"Authorization": token}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        result = Response(response.status, response.read().decode())
        connection.close()
        return result

    def post_swap(self, request_id: str, amount: str = "7") -> Response:
        source = {"chain": "POLYGON", "currency": "usdt", "amount": amount}
        destination = {"chain": "POLYGON", "currency": "usdc", "walletAddress": WALLET}
        body = {"requestId": request_id, "source": source, "destination": destination}
        response = self.call("POST", "/v2/wallets/swaps", body)

        def is_answered() -> bool:
            nonlocal response
            if "STORE_UNAVAILABLE" in response.text:
                response = self.call("POST", "/v2/wallets/swaps", body)
            return "STORE_UNAVAILABLE" not in response.text

        # On a busy machine the Redis may be late; then the call is repeated.
        wait_until(is_answered, PATIENCE_SECONDS)
        return response

    def metrics(self) -> str:
        return self.call("GET", "/metrics", where="probes").text

    def fill_disk(self) -> None:
        """Lets no file of the gate grow any more."""
        resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def empty_disk(self) -> None:
        resource.prlimit(self.child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def start_scraped_gate(binary: str, upstream: str, redis: Redis, folder: Path) -> Iterator[ScrapedGate]:
    # The gate needs a credential to send released holds. Nothing goes to the sandbox.
    config = gate_config(upstream, "127.0.0.1:9").replace("[production]", '[production]\ncredential = "watched"')
    config += CONFIG.format(redis=redis.port) + people_config(0)
    (folder / "policies").mkdir()
    (folder / "policies" / "watched.toml").write_text(POLICIES, encoding="utf-8")
    (folder / "sluice.toml").write_text(config, encoding="utf-8")
    # A file limit must reach the gate as an error, like a full disk, not as a signal. Python ignores that signal;
    # without `restore_signals` the child ignores it too.
    create_store(binary, folder / "sluice.toml")
    child = subprocess.Popen(
        [binary, "serve", "--config", folder / "sluice.toml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        restore_signals=False,
    )
    program = Program(child)
    addresses: dict[str, str] = {}

    def note_all_addresses(line: LogLine) -> bool:
        if line.get("message") == "listening for people":
            addresses["console"] = line["address"]
        note_address(line, addresses)
        return len(addresses) == 4

    try:
        log = program.wait_for(note_all_addresses)
        if len(addresses) < 4:
            raise RuntimeError(f"the gate does not serve: {log}")
        yield ScrapedGate(child, addresses)
    finally:
        child.kill()
        child.wait()


class QueryResult(NamedTuple):
    error: str
    series: int


class Prometheus:
    """A real Prometheus with the shipped rules, which wait a second at most."""

    def __init__(self, folder: Path, target: str) -> None:
        self.folder = folder
        self.port = free_port()
        for name in RULES:
            text = (DEPLOY / "prometheus" / name).read_text(encoding="utf-8")
            text = re.sub(r"^(\s+for): .*$", r"\1: 1s", text, flags=re.MULTILINE)
            (folder / name).write_text(text, encoding="utf-8")
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")

    @contextmanager
    def run(self) -> Iterator[None]:
        command: list[str | Path] = ["prometheus", "--config.file", self.folder / "prometheus.yml"]
        command += ["--storage.tsdb.path", self.folder / "data"]
        command += ["--web.listen-address", f"127.0.0.1:{self.port}"]
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            child.terminate()
            child.wait(20)

    def get(self, path: str, **query: str) -> Any:
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            content = json.loads(connection.getresponse().read())
            connection.close()
        except (OSError, ValueError) as error:
            return {"status": "error", "error": str(error)}
        return content

    def query(self, expression: str) -> QueryResult:
        content = self.get("query", query=expression)
        return QueryResult(content.get("error", ""), len(content.get("data", {}).get("result", [])))

    def firing(self) -> set[str]:
        """Returns the names of the alerts that fire."""
        alerts = self.get("alerts").get("data", {}).get("alerts", [])
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def run_promtool(report: Report, what: str, arguments: list[str], metrics: str | None = None) -> None:
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=DEPLOY / "prometheus",
        input=metrics,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    # promtool prints remarks about metrics, but succeeds.
    has_remarks = metrics is not None and bool(output.strip())
    report.check_that(what, done.returncode == 0 and not has_remarks, output)


def make_traffic(gate: ScrapedGate) -> None:
    """Makes a few calls of every kind; other tests check the responses."""
    operator = "Bearer " + make_token("ops-1", PEOPLE, roles=["operator"])
    for at in range(20):
        gate.call("GET", "/v2/offramps?limit=2")
        gate.post_swap(f"watched-{at}")
    gate.post_swap("watched-0")
    gate.post_swap("watched-denied", "90000")
    gate.call("GET", "/nowhere")
    gate.call("GET", "/v2/users", token="Bearer nonsense")
    gate.call("GET", "/sluice/v1/freezes", where="console", token=operator)


def fail_next_swap(upstream: str) -> None:
    """Lets the simulator answer the next swap so that its outcome stays unknown."""
    host, port = upstream.rsplit(":", 1)
    connection = HTTPConnection(host, int(port), timeout=10)
    fault = {"operation": "createSwap", "kind": "html500", "effect": False, "times": 1}
    connection.request("POST", "/simulator/faults", json.dumps(fault), {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()


def await_query(prometheus: Prometheus, expression: str, *, may_be_empty: bool) -> QueryResult:
    """Repeats a query until it has data or an error; a recording rule of a rate needs two scrapes and an evaluation."""
    result = prometheus.query(expression)

    def is_answered() -> bool:
        nonlocal result
        result = prometheus.query(expression)
        return bool(result.error or result.series or may_be_empty)

    wait_until(is_answered, 30)
    return result


def check_queries(report: Report, prometheus: Prometheus) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "sluice.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        may_be_empty = "Empty" in panel.get("description", "")
        for target in panel.get("targets", []):
            result = await_query(prometheus, target["expr"], may_be_empty=may_be_empty)
            empty = "" if result.series or may_be_empty else "no data"
            report.check(f"dashboard, {panel['title']}: {target['expr']}", result.error or empty)
    for name in RULES:
        for group in yaml.safe_load((DEPLOY / "prometheus" / name).read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                result = prometheus.query(rule["expr"])
                empty = "" if result.series or "alert" in rule else "no data"
                report.check(f"{rule.get('alert') or rule.get('record')}", result.error or empty)


def check_alerts(report: Report, prometheus: Prometheus, gate: ScrapedGate, redis: Redis, upstream: str) -> None:
    def check_fires(name: str, why: str) -> None:
        fires = wait_until(lambda: name in prometheus.firing(), PATIENCE_SECONDS)
        report.check_that(f"{name} fires: {why}", fires, f"only {sorted(prometheus.firing())} do")

    def check_ends(name: str) -> None:
        ends = wait_until(lambda: name not in prometheus.firing(), PATIENCE_SECONDS)
        report.check_that(f"{name} ends", ends, "it still fires")

    quiet = {
        "SluiceGatesDiffer",
        "SluiceStoreUnavailable",
        "SluiceAuditFailing",
        "SluiceOutcomeUnknown",
        "SluiceHoldExpires",
        "SluiceDown",
    }
    report.check("no alert fires before a fault", ", ".join(sorted(quiet & prometheus.firing())))

    fail_next_swap(upstream)
    response = gate.post_swap("watched-in-doubt")
    report.check_that("the outcome of a swap is unknown", "OUTCOME_UNKNOWN" in response.text, response)
    check_fires("SluiceOutcomeUnknown", "the outcome of a call is unknown")

    response = gate.post_swap("watched-held", "2000")
    report.check_that("a swap is held", response.status == 202, response)
    check_fires("SluiceHoldExpires", "it expires in ten minutes")

    gate.fill_disk()
    response = gate.post_swap("watched-unwritten")
    report.check_that("no swap is sent without its audit entry", "AUDIT_UNAVAILABLE" in response.text, response)
    check_fires("SluiceAuditFailing", "the disk is full")
    gate.empty_disk()
    check_ends("SluiceAuditFailing")
    response = gate.post_swap("watched-unwritten")
    report.check_that("swaps are sent again", response.status == 201, response)

    redis.kill()
    check_fires("SluiceStoreUnavailable", "the Redis is down")
    check_fires("SluiceSharedRatesDegraded", "the Redis is down")
    redis.restart()
    check_ends("SluiceStoreUnavailable")

    gate.child.kill()
    check_fires("SluiceDown", "the gate is down")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sluice")
    binary = parser.parse_args().sluice
    report = Report()
    run_promtool(report, "promtool accepts the rules", ["check", "rules", *RULES])
    run_promtool(report, "promtool accepts the configuration", ["check", "config", "prometheus.yml"])
    run_promtool(report, "the rules pass their tests", ["test", "rules", "alerts_test.yml"])
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        gate_folder, redis_folder, prometheus_folder = (Path(folder) / name for name in ("gate", "redis", "prometheus"))
        for one in (gate_folder, redis_folder, prometheus_folder):
            one.mkdir()
        redis = Redis(redis_folder)
        try:
            with (
                start_simulator(binary) as upstream,
                start_scraped_gate(binary, upstream, redis, gate_folder) as gate,
            ):
                prometheus = Prometheus(prometheus_folder, gate.addresses["probes"])
                with prometheus.run():
                    check_scraping(report, prometheus, gate)
                    check_queries(report, prometheus)
                    check_alerts(report, prometheus, gate, redis, upstream)
        finally:
            redis.kill()
    return report.close()


def check_scraping(report: Report, prometheus: Prometheus, gate: ScrapedGate) -> None:
    def becomes_one(expression: str) -> Callable[[], bool]:
        return lambda: prometheus.query(expression).series == 1

    is_scraped = wait_until(becomes_one("sluice_store_up == 1"), PATIENCE_SECONDS)
    report.check_that("a gate is scraped", is_scraped, (prometheus.folder / "log").read_text(encoding="utf-8"))
    make_traffic(gate)
    # A rate needs a first sample before the counter grows.
    wait_until(becomes_one("sum(sluice_requests_total) > 10"), PATIENCE_SECONDS)
    make_traffic(gate)
    run_promtool(report, "promtool accepts the metrics", ["check", "metrics"], gate.metrics())


if __name__ == "__main__":
    sys.exit(main())

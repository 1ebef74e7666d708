"""Tries the examples in `deploy/`, without containers.

Usage: `python tests/tools/deploy.py SLUICE`.

Starts the gates, simulator and Redis of compose.yaml with the same files and arguments, but other addresses and
folders: each gate must know the swaps of the other. Starts the Sentinel of the example as well. Public checkers read
the units, manifests and container file: systemd-analyze, kubernetes-validate, kustomize, yamllint,
dockerfile-parse.
"""

import argparse
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes_validate
import yaml
from dockerfile_parse import DockerfileParser
from yamllint import linter
from yamllint.config import YamlLintConfig

from gate import free_port, run_program
from report import Report

KUBERNETES = "1.33"
# The exposure level by `systemd-analyze security`: a service below it has few rights left to lose.
MAX_EXPOSURE = 2.0
YAML_RULES = """{extends: default, rules: {line-length: disable, document-start: disable, comments: disable,
    braces: {max-spaces-inside: 1}, comments-indentation: disable}}"""
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SWAP = json.dumps(
    {
        "requestId": "deploy-1",
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": "10"},
        "destination": {
            "chain": "POLYGON",
            "currency": "usdc",
            "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        },
    }
)

# A part of a YAML document.
Yaml = Any


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def run(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def gates_of(compose: Yaml) -> dict[str, Yaml]:
    """Returns the services of a compose file that are gates."""
    services: dict[str, Yaml] = compose["services"]
    return {name: one for name, one in services.items() if "SLUICE_STORE_NODE" in one.get("environment", {})}


def check_compose(report: Report, compose: Yaml) -> None:
    """Checks the compose file itself."""
    gates = gates_of(compose)
    report.check_that("there are two gates", len(gates) == 2, list(gates))
    names = {gate["environment"]["SLUICE_STORE_NODE"] for gate in gates.values()}
    report.check_that("each gate has its own name", len(names) == len(gates), names)
    check_compose_volumes(report, compose)
    for name, one in compose["services"].items():
        unknown = [s for s in one.get("secrets", ()) if s not in compose["secrets"]]
        report.check(f"{name}: every secret is declared", ", ".join(unknown))
        image = one["image"]
        is_pinned = "build" in one or bool(DIGEST.search(image))
        report.check_that(f"{name}: its image is named by a digest", is_pinned, image)
    ports = [port.rsplit(":", 1)[0] for one in compose["services"].values() for port in one.get("ports", ())]
    report.check_that("no port is used twice", len(set(ports)) == len(ports), ports)
    reachable = [port for port in ports if not port.startswith("127.0.0.1:")]
    report.check("no other machine reaches a port", ", ".join(reachable))
    named = set(re.findall(r"/run/secrets/([a-z-]+)", read(DEPLOY / "compose.toml")))
    for name, gate in gates.items():
        report.check(f"{name}: has the secrets that its settings name", ", ".join(named ^ set(gate["secrets"])))
    users = re.findall(r"^USER (.+)$", read(DEPLOY / "Containerfile"), re.MULTILINE)
    is_user = bool(users) and users[-1].split(":")[0] not in ("0", "root")
    report.check_that("the container's user is not root", is_user, users)


def check_compose_volumes(report: Report, compose: Yaml) -> None:
    def source(volume: str) -> str:
        return volume.split(":")[0]

    gates = gates_of(compose)
    own = [source(v) for gate in gates.values() for v in gate["volumes"] if not v.startswith(".")]
    report.check_that("each gate has its own folder", len(set(own)) == len(gates), own)
    volumes = [source(v) for one in compose["services"].values() for v in one.get("volumes", ())]
    missing = [v for v in volumes if v.startswith(".") and not (DEPLOY / v).exists()]
    report.check("every mounted file exists", ", ".join(missing))
    unknown = [v for v in volumes if not v.startswith(".") and v not in compose["volumes"]]
    report.check("every volume is declared", ", ".join(unknown))


def check_yaml(report: Report) -> None:
    for file in [*DEPLOY.rglob("*.yaml"), *DEPLOY.glob("*/*.yml")]:
        problems = linter.run(read(file), YamlLintConfig(YAML_RULES))
        errors = [str(problem) for problem in problems if problem.level == "error"]
        report.check(f"{file.name}: yamllint", "; ".join(errors[:3]))


def check_container(report: Report) -> None:
    steps = DockerfileParser(fileobj=io.BytesIO((DEPLOY / "Containerfile").read_bytes())).structure

    def values(instruction: str) -> list[str]:
        return [step["value"] for step in steps if step["instruction"] == instruction]

    images = values("FROM")
    report.check_that("the container is built in three stages", len(images) == 3, images)
    # An empty image: what is not copied is not there, such as a shell.
    report.check_that("its image begins empty", images[-1] == "scratch", images)
    unpinned = [image for image in images[:-1] if not DIGEST.search(image.partition(" AS ")[0])]
    report.check("its images are named by digests", ", ".join(unpinned))
    downloads = values("ADD") + [command for command in values("RUN") if "curl" in command or "wget" in command]
    report.check("only package managers download", ", ".join(downloads))
    shells = [words for words in values("ENTRYPOINT") + values("CMD") if not words.startswith("[")]
    report.check("it starts without a shell", ", ".join(shells))


def check_units(binary: str, report: Report, folder: Path) -> None:
    for name in ("sluice.service", "sluice@.service"):
        text = read(DEPLOY / "sluice.service").replace("/usr/local/bin/sluice", binary)
        (folder / name).write_text(text, encoding="utf-8")
    shutil.copy(DEPLOY / "sluice.socket", folder)
    units = [folder / name for name in ("sluice.service", "sluice@a.service", "sluice.socket")]
    done = run(["systemd-analyze", "verify", *units])
    is_valid = done.returncode == 0 and not done.stderr
    report.check_that("systemd accepts the units", is_valid, done.stdout + done.stderr)
    done = run(["systemd-analyze", "security", "--offline=true", folder / "sluice.service"])
    level = re.search(r"exposure level for sluice.service: ([0-9.]+)", done.stdout)
    is_confined = level is not None and float(level[1]) <= MAX_EXPOSURE
    report.check_that("the service is confined", is_confined, done.stdout[-300:] + done.stderr)
    expected = re.findall(r"^ListenStream=(.+)$", read(DEPLOY / "sluice.socket"), re.MULTILINE)
    subprocess.run([binary, "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    actual = re.findall(r'^listen = "(.+)"$', read(folder / "sluice.toml"), re.MULTILINE)
    report.check_that("the sockets are those of the first configuration", expected == actual, f"{expected} {actual}")


def check_kubernetes(binary: str, report: Report, folder: Path) -> None:
    """Checks each resource by the schemas of Kubernetes; then the gate's own settings."""
    resources = list(yaml.safe_load_all(read(DEPLOY / "kubernetes" / "base" / "kubernetes.yaml")))
    check_resources(report, "base", resources)

    def of_kind(kind: str) -> list[Yaml]:
        return [one for one in resources if one["kind"] == kind]

    [stateful], [config] = of_kind("StatefulSet"), of_kind("ConfigMap")
    pod = stateful["spec"]["template"]["spec"]
    [container] = pod["containers"]
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    selectors = [one["spec"]["selector"] for one in of_kind("Service") + of_kind("PodDisruptionBudget")]
    selected = [selector.get("matchLabels", selector) for selector in selectors]
    is_found = all(labels.items() >= one.items() for one in selected)
    report.check_that("every selector finds the gates", is_found, selected)
    ports = {port["name"] for port in container["ports"]}
    probes = {container[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    report.check_that("every probe asks a port of the container", probes <= ports, probes - ports)
    mounted, declared = {one["name"] for one in container["volumeMounts"]}, {one["name"] for one in pod["volumes"]}
    declared |= {one["metadata"]["name"] for one in stateful["spec"]["volumeClaimTemplates"]}
    report.check_that("every volume is declared and mounted", mounted == declared, mounted ^ declared)
    settings = config["data"]["sluice.toml"]
    check_kubernetes_settings(binary, report, settings, folder)
    notice = re.search(r"notice_secs = (\d+)", settings)
    period = pod["terminationGracePeriodSeconds"]
    is_long = notice is not None and period >= int(notice[1]) + 95 + 10
    report.check_that("pods have the time to stop", is_long, f"{period} s")


def check_calls(report: Report) -> None:
    """Checks that each request of `calls.http` is one of the contracts, and that its body is JSON."""
    root = DEPLOY.parent
    contracts = [
        json.loads(read(root / "schemas" / name))["paths"] for name in ("openapi.json", "console.json", "gate.json")
    ]
    known = {(method.upper(), path) for paths in contracts for path, item in paths.items() for method in item}
    requests = read(DEPLOY / "clients" / "calls.http").split("\n###")[1:]
    for request in requests:
        first, _, body = request.partition("\n")[2].strip().partition("\n\n")
        method, target = first.split("\n", 1)[0].split(" ")
        path = target.partition("}}")[2].partition("?")[0]
        report.check_that(f"calls.http: {method} {path} is documented", (method, path) in known, known)
        if body:
            report.check_that(f"calls.http: {path} has a requestId", "requestId" in json.loads(body), body)
    report.check_that("calls.http has its requests", len(requests) == 8, len(requests))


def check_resources(report: Report, name: str, resources: list[Yaml]) -> None:
    for one in resources:
        fault = ""
        try:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            fault = error.message
        report.check(f"{name}: {one['kind']} {one['metadata']['name']}: Kubernetes accepts it", fault)


def check_overlay(binary: str, report: Report, folder: Path) -> None:
    """Builds the overlay: the resources of the base, with an image, settings and policies of its own."""
    done = run(["kubectl", "kustomize", DEPLOY / "kubernetes" / "example"])
    report.check_that("kustomize builds the overlay", done.returncode == 0, done.stderr)
    resources = [one for one in yaml.safe_load_all(done.stdout) if one]
    check_resources(report, "overlay", resources)
    base = list(yaml.safe_load_all(read(DEPLOY / "kubernetes" / "base" / "kubernetes.yaml")))
    added = len(resources) - len(base)
    report.check_that("the overlay adds the policies, and nothing else", added == 1, added)
    spaces = {one["metadata"].get("namespace") for one in resources}
    report.check_that("everything is in its namespace", spaces == {"payments"}, spaces)
    [stateful] = [one for one in resources if one["kind"] == "StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    image = pod["containers"][0]["image"]
    report.check_that("the image is the overlay's, by digest", image.endswith("@sha256:" + "1" * 64), image)
    maps = {one["metadata"]["name"]: one["data"] for one in resources if one["kind"] == "ConfigMap"}
    named = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    report.check_that("the pod mounts the overlay's settings and policies", named == set(maps), named ^ set(maps))
    [settings] = [data["sluice.toml"] for data in maps.values() if "sluice.toml" in data]
    overlay = folder / "overlay"
    overlay.mkdir()
    check_kubernetes_settings(binary, report, settings, overlay)


def check_kubernetes_settings(binary: str, report: Report, settings: str, folder: Path) -> None:
    secrets = folder / "secrets"
    secrets.mkdir()
    for name in re.findall(r"/run/secrets/sluice/([a-z-]+)", settings):
        secret = "redis://redis:6379" if "url" in name else os.urandom(32).hex()
        (secrets / name).write_text(secret, encoding="utf-8")
    settings = settings.replace("/run/secrets/sluice", str(secrets)).replace("/var/lib/sluice", str(folder))
    settings = settings.replace("/etc/sluice/policies", str(DEPLOY.parent / "policies"))
    file = folder / "kubernetes.toml"
    file.write_text(settings, encoding="utf-8")
    done = run([binary, "check", "--config", file], {"SLUICE_STORE_NODE": "sluice-0"})
    report.check_that("kubernetes: its settings have no faults", done.returncode == 0, done.stdout + done.stderr)


class Response(NamedTuple):
    status: int
    outcome: str | None
    replayed: str | None
    body: bytes


class ComposeGate:
    """A gate of the compose file, on this machine."""

    def __init__(
        self, binary: str, service: Yaml, deploy: Path, localize: Callable[[str], str], upstream_port: int
    ) -> None:
        self.binary = binary
        self.node: str = service["environment"]["SLUICE_STORE_NODE"]
        self.port = free_port()
        folder = deploy / self.node
        folder.mkdir()
        settings = localize(read(deploy / "compose.toml")).replace("/var/lib/sluice", str(folder))
        settings = settings.replace("simulator:9080", f"127.0.0.1:{upstream_port}")
        shutil.copytree(DEPLOY.parent / "policies", folder / "policies")
        self.file = folder / "sluice.toml"
        self.file.write_text(settings, encoding="utf-8")
        self.environment = {
            **service["environment"],
            "SLUICE_PRODUCTION_LISTEN": f"127.0.0.1:{self.port}",
            "SLUICE_PROBES_LISTEN": "127.0.0.1:0",
        }

    def check(self, report: Report) -> None:
        done = run([self.binary, "check", "--config", self.file], self.environment)
        report.check_that(f"{self.node}: its settings have no faults", done.returncode == 0, done.stdout + done.stderr)

    def start(self) -> "subprocess.Popen[bytes]":
        command = [self.binary, "serve", "--config", self.file]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)

    def create_store(self) -> None:
        subprocess.run([self.binary, "store", "create", "--config", self.file], env=self.environment, check=True)

    def post_swap(self, token: str) -> Response:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/v2/wallets/swaps", SWAP, headers)
        response = connection.getresponse()
        outcome, replayed = response.headers["Sluice-Outcome"], response.headers["Sluice-Replayed"]
        return Response(response.status, outcome, replayed, response.read())

    def post_swap_when_up(self, token: str) -> Response | OSError:
        """Posts a swap as soon as the gate listens and its store is available."""
        end = time.monotonic() + 20
        while True:
            result: Response | OSError
            try:
                result = self.post_swap(token)
                if result.status != 503:
                    return result
            except OSError as error:
                result = error
            if time.monotonic() > end:
                return result
            time.sleep(0.05)


def try_compose(binary: str, report: Report, compose: Yaml, folder: Path) -> None:
    """Runs everything that the compose file starts, on this machine."""
    deploy = folder / "deploy"
    shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([deploy / "secrets.sh"], check=True)
    again = run([deploy / "secrets.sh"])
    report.check_that("secrets.sh never replaces secrets", again.returncode == 1, "it did")
    secrets, redis_port, upstream_port = deploy / "secrets", free_port(), free_port()

    def localize(text: str) -> str:
        return text.replace("/run/secrets", str(secrets))

    redis_url = read(secrets / "redis-url").replace("@redis:6379", f"@127.0.0.1:{redis_port}")
    (secrets / "redis-url").write_text(redis_url, encoding="utf-8")
    commands = {name: one.get("command", []) for name, one in compose["services"].items()}
    redis_command = [
        localize(word).replace("/etc/redis.conf", str(deploy / "redis.conf")) for word in commands["redis"]
    ]
    redis_command += ["--port", str(redis_port), "--dir", str(folder)]
    simulator = [word.replace("0.0.0.0:9080", f"127.0.0.1:{upstream_port}") for word in commands["simulator"]]
    redis = subprocess.Popen(redis_command, stdout=subprocess.DEVNULL)
    try:
        with run_program([binary, *simulator]) as program:
            program.wait_for(lambda line: str(upstream_port) in json.dumps(line))
            services = gates_of(compose).values()
            gates = [ComposeGate(binary, service, deploy, localize, upstream_port) for service in services]
            for gate in gates:
                gate.check(report)
            made = subprocess.run([deploy / "token.sh", "me"], check=True, capture_output=True, text=True)
            try_gates(report, gates, made.stdout.strip())
    finally:
        redis.kill()
        redis.wait()


def try_gates(report: Report, gates: list[ComposeGate], token: str) -> None:
    children = [gate.start() for gate in gates]
    try:
        gates[0].create_store()
        first, again = [gate.post_swap_when_up(token) for gate in gates]
        is_executed = isinstance(first, Response) and first[:3] == (201, "executed", None)
        report.check_that("one gate executes a swap", is_executed, first)
        is_replayed = (
            isinstance(first, Response)
            and isinstance(again, Response)
            and again == Response(201, "executed", "true", first.body)
        )
        report.check_that("the other gate knows it", is_replayed, again)
    finally:
        for child in children:
            child.terminate()
        codes = [child.wait(60) for child in children]
    report.check_that("both gates stop in order", not any(codes), codes)


def ask_redis(port: int, command: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(command)
        return stream.recv(1_000)


def try_sentinel(report: Report, folder: Path) -> None:
    """Runs a Sentinel and a Redis with the files of the example, on this machine."""
    sentinel_port, redis_port = free_port(), free_port()
    sentinel_conf = read(DEPLOY / "sentinel.conf").replace("port 26379", f"port {sentinel_port}")
    sentinel_conf = sentinel_conf.replace("redis-1.example.com 6379", f"127.0.0.1 {redis_port}")
    (folder / "sentinel.conf").write_text(sentinel_conf, encoding="utf-8")
    redis_conf = read(DEPLOY / "redis.conf").replace("# min-", "min-")
    (folder / "replicated.conf").write_text(redis_conf, encoding="utf-8")
    (folder / "redis").mkdir()
    commands: list[list[str | Path]] = [
        ["redis-server", folder / "replicated.conf", "--port", str(redis_port), "--dir", folder / "redis"],
        ["redis-sentinel", folder / "sentinel.conf"],
    ]
    children = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for command in commands]
    try:
        reply, end = b"", time.monotonic() + 20
        while str(redis_port).encode() not in reply and time.monotonic() < end:
            try:
                reply = ask_redis(sentinel_port, b"SENTINEL GET-MASTER-ADDR-BY-NAME sluice\r\n")
            except OSError:
                time.sleep(0.05)
        report.check_that("the Sentinel names the Redis", str(redis_port).encode() in reply, reply)
        reply = ask_redis(redis_port, b"SET a b\r\n")
        report.check_that("a Redis without a replica rejects writes", b"NOREPLICAS" in reply, reply)
    finally:
        for child in children:
            child.kill()
            child.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    binary, report = parser.parse_args().binary, Report()
    compose = yaml.safe_load(read(DEPLOY / "compose.yaml"))
    check_compose(report, compose)
    check_yaml(report)
    check_container(report)
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        check_units(binary, report, Path(folder))
        check_kubernetes(binary, report, Path(folder))
        check_overlay(binary, report, Path(folder))
    check_calls(report)
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        try_compose(binary, report, compose, Path(folder))
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        try_sentinel(report, Path(folder))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

"""Tries what `deploy/` shows, without containers: `python tests/tools/deploy.py SLUICE`.

Its gates, simulator and Redis are started as compose.yaml says, with their files
and arguments, but for addresses and folders. A swap at one gate is known at the
other. The Sentinels' example is started as well. Units, manifests and container file are
read by public checkers: systemd-analyze, kubernetes-validate, yamllint, dockerfile-parse.
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
from http.client import HTTPConnection
from pathlib import Path

import kubernetes_validate
import yaml
from dockerfile_parse import DockerfileParser
from yamllint import linter
from yamllint.config import YamlLintConfig

from gate import running
from kill import free_port
from report import Report

KUBERNETES = "1.33"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SWAP = json.dumps({
    "requestId": "deploy-1",
    "source": {"chain": "POLYGON", "currency": "usdt", "amount": "10"},
    "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
})


def check_compose(report, compose):
    """What can be seen in the file itself."""
    services, gates = compose["services"], gates_of(compose)
    report.check("there are two gates", "" if len(gates) == 2 else str(list(gates)))
    names = {gate["environment"]["SLUICE_STORE_NODE"] for gate in gates.values()}
    report.check("each gate has a name of its own", "" if len(names) == len(gates) else str(names))
    named = lambda volume: volume.split(":")[0]
    own = [named(v) for gate in gates.values() for v in gate["volumes"] if not v.startswith(".")]
    report.check("each gate has a folder of its own", "" if len(set(own)) == len(gates) else str(own))
    volumes = [named(v) for one in services.values() for v in one.get("volumes", ())]
    files = [v for v in volumes if v.startswith(".") and not (DEPLOY / v).exists()]
    report.check("every file that is mounted is there", ", ".join(files))
    unknown = [v for v in volumes if not v.startswith(".") and v not in compose["volumes"]]
    report.check("every volume is declared", ", ".join(unknown))
    for name, one in services.items():
        unknown = [s for s in one.get("secrets", ()) if s not in compose["secrets"]]
        report.check(f"{name}: every secret is declared", ", ".join(unknown))
        image = one["image"]
        pinned = "build" in one or re.search(r":v?\d", image)
        report.check(f"{name}: its image is of a version", "" if pinned else image)
    ports = [port.rsplit(":", 1)[0] for one in services.values() for port in one.get("ports", ())]
    report.check("no port is taken twice", "" if len(set(ports)) == len(ports) else str(ports))
    away = [port for port in ports if not port.startswith("127.0.0.1:")]
    report.check("nothing is open to other machines", ", ".join(away))
    asked = set(re.findall(r"/run/secrets/([a-z-]+)", (DEPLOY / "compose.toml").read_text(encoding="utf-8")))
    for name, gate in gates.items():
        report.check(f"{name}: has the secrets that its settings name", ", ".join(asked ^ set(gate["secrets"])))
    user = re.findall(r"^USER (.+)$", (DEPLOY / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    report.check("the container's user is not root", "" if user and user[-1].split(":")[0] not in ("0", "root") else str(user))


# A service that is as locked in as this one has little left to lose.
MOST_EXPOSED = 2.0
YAML = """{extends: default, rules: {line-length: disable, document-start: disable, comments: disable,
    braces: {max-spaces-inside: 1}, comments-indentation: disable}}"""


def check_yaml(report):
    files = [*DEPLOY.glob("*.yaml"), *DEPLOY.glob("*/*.yml")]
    for file in files:
        wrong = [str(one) for one in linter.run(file.read_text(encoding="utf-8"), YamlLintConfig(YAML)) if one.level == "error"]
        report.check(f"{file.name}: yamllint", "; ".join(wrong[:3]))


def check_container(report):
    parser = DockerfileParser(fileobj=io.BytesIO((DEPLOY / "Containerfile").read_bytes()))
    steps = parser.structure
    of = lambda name: [step["value"] for step in steps if step["instruction"] == name]
    report.check("the container is built in two stages", "" if len(of("FROM")) == 2 else str(of("FROM")))
    report.check("its images are of a version", ", ".join(image for image in of("FROM") if not re.search(r":[a-z]*-?\d|:[a-z]+-slim", image)))
    report.check("nothing is fetched past the package managers", ", ".join(of("ADD") + [run for run in of("RUN") if "curl" in run or "wget" in run]))
    started = of("ENTRYPOINT") + of("CMD")
    report.check("it is started without a shell", ", ".join(words for words in started if not words.startswith("[")))


def check_units(binary, report, folder):
    for name in ("sluice.service", "sluice@.service"):
        text = (DEPLOY / "sluice.service").read_text(encoding="utf-8")
        (folder / name).write_text(text.replace("/usr/local/bin/sluice", binary), encoding="utf-8")
    shutil.copy(DEPLOY / "sluice.socket", folder)
    units = [folder / name for name in ("sluice.service", "sluice@a.service", "sluice.socket")]
    said = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    report.check("systemd takes the units", (said.stdout + said.stderr) if said.returncode or said.stderr else "")
    words = ["systemd-analyze", "security", "--offline=true", folder / "sluice.service"]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    level = re.search(r"exposure level for sluice.service: ([0-9.]+)", said.stdout)
    report.check("the service is locked in", "" if level and float(level[1]) <= MOST_EXPOSED else said.stdout[-300:] + said.stderr)
    wanted = re.findall(r"^ListenStream=(.+)$", (DEPLOY / "sluice.socket").read_text(encoding="utf-8"), re.MULTILINE)
    subprocess.run([binary, "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    given = re.findall(r'^listen = "(.+)"$', (folder / "sluice.toml").read_text(encoding="utf-8"), re.MULTILINE)
    report.check("the sockets are those of the first configuration", "" if wanted == given else f"{wanted} {given}")


def check_kubernetes(binary, report, folder):
    """Each resource against the schemas of Kubernetes; then the gate's own settings."""
    resources = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    for one in resources:
        name = f"{one['kind']} {one['metadata']['name']}"
        try:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
            report.check(f"{name}: is as Kubernetes wants it", "")
        except kubernetes_validate.ValidationError as why:
            report.check(f"{name}: is as Kubernetes wants it", why.message)
    of = lambda kind: [one for one in resources if one["kind"] == kind]
    [stateful], [config] = of("StatefulSet"), of("ConfigMap")
    pod = stateful["spec"]["template"]["spec"]
    [container] = pod["containers"]
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    selected = [one["spec"]["selector"].get("matchLabels", one["spec"]["selector"]) for kind in ("Service", "PodDisruptionBudget") for one in of(kind)]
    report.check("what selects the gates finds them", "" if all(labels.items() >= one.items() for one in selected) else str(selected))
    ports = {port["name"] for port in container["ports"]}
    probes = {container[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    report.check("probes ask a port that is there", "" if probes <= ports else str(probes - ports))
    mounted, there = {one["name"] for one in container["volumeMounts"]}, {one["name"] for one in pod["volumes"]}
    there |= {one["metadata"]["name"] for one in stateful["spec"]["volumeClaimTemplates"]}
    report.check("every volume is there and mounted", "" if mounted == there else str(mounted ^ there))
    text, secrets = config["data"]["sluice.toml"], folder / "secrets"
    secrets.mkdir()
    for name in re.findall(r"/run/secrets/sluice/([a-z-]+)", text):
        (secrets / name).write_text("redis://redis:6379" if "url" in name else os.urandom(32).hex(), encoding="utf-8")
    text = text.replace("/run/secrets/sluice", str(secrets)).replace("/etc/sluice/policies", str(DEPLOY.parent / "policies"))
    text = text.replace("/var/lib/sluice", str(folder))
    file = folder / "kubernetes.toml"
    file.write_text(text, encoding="utf-8")
    named = {"SLUICE_STORE_NODE": "sluice-0"}
    said = subprocess.run([binary, "check", "--config", file], env=named, capture_output=True, text=True, check=False)
    report.check("kubernetes: its settings have no faults", "" if said.returncode == 0 else said.stdout + said.stderr)
    notice = int(re.search(r"notice_secs = (\d+)", text)[1])
    report.check("pods are given the time to end", "" if pod["terminationGracePeriodSeconds"] >= notice + 95 + 10 else str(notice))


def gates_of(compose):
    return {name: one for name, one in compose["services"].items() if "SLUICE_STORE_NODE" in one.get("environment", {})}


def try_compose(binary, report, compose, folder):
    """All of it, on this machine."""
    deploy = folder / "deploy"
    shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns("secrets"))
    subprocess.run([deploy / "secrets.sh"], check=True)
    again = subprocess.run([deploy / "secrets.sh"], check=False, capture_output=True)
    report.check("secrets are never made anew", "" if again.returncode == 1 else "they were")
    secrets, redis_port, upstream_port = deploy / "secrets", free_port(), free_port()
    here = lambda text: text.replace("/run/secrets", str(secrets))
    (secrets / "redis-url").write_text(
        (secrets / "redis-url").read_text(encoding="utf-8").replace("@redis:6379", f"@127.0.0.1:{redis_port}"), encoding="utf-8"
    )
    command = [here(word).replace("/etc/redis.conf", str(deploy / "redis.conf")) for word in compose["services"]["redis"]["command"]]
    simulator = [word.replace("0.0.0.0:9080", f"127.0.0.1:{upstream_port}") for word in compose["services"]["simulator"]["command"]]
    redis = subprocess.Popen([*command, "--port", str(redis_port), "--dir", folder], stdout=subprocess.DEVNULL)
    try:
        with running([binary, *simulator]) as process:
            process.until(lambda line: str(upstream_port) in json.dumps(line))
            gates = [Gate(binary, gate, deploy, here, upstream_port) for gate in gates_of(compose).values()]
            for gate in gates:
                gate.check(report)
            token = subprocess.run([deploy / "token.sh", "me"], check=True, capture_output=True, text=True).stdout.strip()
            try_gates(report, gates, token)
    finally:
        redis.kill()
        redis.wait()


class Gate:
    def __init__(self, binary, service, deploy, here, upstream_port):
        self.binary, self.node, self.port = binary, service["environment"]["SLUICE_STORE_NODE"], free_port()
        folder = deploy / self.node
        folder.mkdir()
        text = here((deploy / "compose.toml").read_text(encoding="utf-8"))
        text = text.replace("/var/lib/sluice", str(folder)).replace("simulator:9080", f"127.0.0.1:{upstream_port}")
        shutil.copytree(DEPLOY.parent / "policies", folder / "policies")
        self.file = folder / "sluice.toml"
        self.file.write_text(text, encoding="utf-8")
        self.environment = {**service["environment"], "SLUICE_PRODUCTION_LISTEN": f"127.0.0.1:{self.port}", "SLUICE_PROBES_LISTEN": "127.0.0.1:0"}

    def check(self, report):
        said = subprocess.run([self.binary, "check", "--config", self.file], env=self.environment, capture_output=True, text=True, check=False)
        report.check(f"{self.node}: its settings have no faults", "" if said.returncode == 0 else said.stdout + said.stderr)

    def start(self):
        return subprocess.Popen([self.binary, "serve", "--config", self.file], env=self.environment, stdout=subprocess.DEVNULL)

    def swap(self, token):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/v2/wallets/swaps", SWAP, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Sluice-Outcome"], answer.headers["Sluice-Replayed"], answer.read()


def try_gates(report, gates, token):
    children = [gate.start() for gate in gates]
    try:
        first, again = [until_told(gate, token) for gate in gates]
        report.check("a gate pays", "" if first[:3] == (201, "executed", None) else str(first))
        report.check("the other knows", "" if again[:3] == (201, "executed", "true") and again[3] == first[3] else str(again))
    finally:
        for child in children:
            child.terminate()
        codes = [child.wait(60) for child in children]
    report.check("both end in order", "" if not any(codes) else str(codes))


def until_told(gate, token):
    """As soon as it listens and its store is there."""
    until = time.monotonic() + 20
    while True:
        try:
            told = gate.swap(token)
            if told[0] != 503:
                return told
        except OSError as why:
            told = why
        if time.monotonic() > until:
            return (told,)
        time.sleep(0.05)


def try_sentinel(report, folder):
    """A Sentinel with the file that is shown, on this machine."""
    port, watched = free_port(), free_port()
    text = (DEPLOY / "sentinel.conf").read_text(encoding="utf-8")
    file = folder / "sentinel.conf"
    file.write_text(text.replace("redis-1.example.com 6379", f"127.0.0.1 {watched}").replace("port 26379", f"port {port}"), encoding="utf-8")
    replicated = (DEPLOY / "redis.conf").read_text(encoding="utf-8").replace("# min-", "min-")
    (folder / "replicated.conf").write_text(replicated, encoding="utf-8")
    (folder / "redis").mkdir()
    commands = [
        ["redis-server", folder / "replicated.conf", "--port", str(watched), "--dir", folder / "redis"],
        ["redis-sentinel", file],
    ]
    children = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for command in commands]
    try:
        said, until = b"", time.monotonic() + 20
        while str(watched).encode() not in said and time.monotonic() < until:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
                    stream.sendall(b"SENTINEL GET-MASTER-ADDR-BY-NAME sluice\r\n")
                    said = stream.recv(1_000)
            except OSError:
                time.sleep(0.05)
        report.check("a Sentinel names the Redis", "" if str(watched).encode() in said else f"{said}")
        with socket.create_connection(("127.0.0.1", watched), timeout=5) as stream:
            stream.sendall(b"SET a b\r\n")
            said = stream.recv(1_000)
        report.check("without a replica it takes no writes", "" if b"NOREPLICAS" in said else f"{said}")
    finally:
        for child in children:
            child.kill()
            child.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    binary, report = parser.parse_args().binary, Report()
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    check_compose(report, compose)
    check_yaml(report)
    check_container(report)
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        check_units(binary, report, Path(folder))
        check_kubernetes(binary, report, Path(folder))
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        try_compose(binary, report, compose, Path(folder))
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        try_sentinel(report, Path(folder))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

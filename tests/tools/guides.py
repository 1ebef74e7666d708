"""Follows the guides in deploy/docs line by line: `python tests/tools/guides.py SLUICE [GUIDE...]`.

Each guide has a fresh folder; its blocks that are marked `sh` are one session of bash, which ends at the first command that
fails. Ports that it names are others each time. What is marked `console` is not run.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kill import free_port
from report import Report

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "deploy" / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "console", "toml"}
# As the guides and the first configuration name them.
PORTS = (8080, 8081, 8180, 8280, 9080, 9081, 9090, 9190, 9290, 6379)
SECONDS = 300
# As long as commands of the session run, so does what it started; and it goes with it.
SESSION = "set -euo pipefail\nset -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


def blocks(guide):
    return BLOCK.findall(guide.read_text(encoding="utf-8"))


def with_ports(text, ports):
    for port, other in ports.items():
        text = re.sub(rf"(?<![0-9]){port}(?![0-9])", str(other), text)
    return text


def follow(binary, guide, report):
    shell = "\n".join(text for language, text in blocks(guide) if language == "sh")
    if not shell:
        return
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        folder = Path(folder)
        ports = {port: free_port() for port in PORTS}
        # The first configuration has the ports of the guides.
        tools = folder / ".tools"
        tools.mkdir()
        edit = "; ".join(f"s/:{port}\"/:{other}\"/" for port, other in ports.items())
        (tools / "sluice").write_text(
            "#!/bin/bash\n"
            f'if [[ $1 == init ]]; then\n    "{binary}" "$@" || exit\n    sed --in-place -e \'{edit}\' sluice.toml\n'
            f"    sed --in-place 's|^\\[probes\\]|[probes]\\nlisten = \"127.0.0.1:{ports[9090]}\"|' sluice.toml\n    exit 0\nfi\n"
            f'exec "{binary}" "$@"\n',
            encoding="utf-8",
        )
        (tools / "sluice").chmod(0o755)
        work = folder / "work"
        work.mkdir()
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "SOURCE": str(ROOT)}
        child = subprocess.Popen(
            ["bash", "-c", SESSION + "set -x\n" + with_ports(shell, ports)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said, _ = child.communicate(timeout=SECONDS)
            why = "" if child.returncode == 0 else f"ended with {child.returncode}\n{said.decode(errors='replace')[-3000:]}"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            why = f"was not done after {SECONDS} s\n{child.communicate()[0].decode(errors='replace')[-3000:]}"
        report.check(f"{guide.name} does what it says", why)


def check_links(guide, report):
    text = guide.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    lost = [link for link in links if not link.startswith("https://") and not (guide.parent / link).exists()]
    report.check(f"{guide.name}: every link leads somewhere", ", ".join(lost))
    strange = {language for language, _ in blocks(guide)} - LANGUAGES - {"promql", "yaml", "json", "text", ""}
    report.check(f"{guide.name}: its blocks are marked", ", ".join(sorted(strange)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("guides", nargs="*")
    arguments, report = parser.parse_args(), Report()
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for guide in sorted(DOCS.glob("*.md")):
        if arguments.guides and guide.stem not in arguments.guides:
            continue
        report.check(f"{guide.name} stands in the index", "" if guide.name == "README.md" or f"]({guide.name})" in index else "no")
        check_links(guide, report)
        follow(arguments.binary, guide, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

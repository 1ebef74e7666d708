"""Follows the README and the guides in deploy/docs line by line.

Usage: `python tests/tools/guides.py SLUICE [GUIDE...]`.

Each guide gets a fresh folder. Its blocks marked `sh` run in one bash session, which ends at the first command that
fails; the ports that they name are replaced by free ones. Blocks marked `console` are not run.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from gate import free_port
from report import Report

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "deploy" / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"sh", "console", "toml", "promql", "yaml", "json", "text", ""}
# The ports that the guides and the first configuration name.
PORTS = (8080, 8081, 8083, 8180, 8280, 9080, 9081, 9090, 9190, 9290, 9470, 6379)
TIMEOUT_SECONDS = 300
# Programs that the session started in the background end with it.
SESSION = "set -euo pipefail\nset -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -x\n"


def read_blocks(guide: Path) -> list[tuple[str, str]]:
    """Returns the code blocks of a guide: language and text."""
    blocks: list[tuple[str, str]] = BLOCK.findall(guide.read_text(encoding="utf-8"))
    return blocks


def replace_ports(text: str, ports: dict[int, int]) -> str:
    for port, other in ports.items():
        text = re.sub(rf"(?<![0-9]){port}(?![0-9])", str(other), text)
    return text


def write_wrapper(binary: str, tools: Path, ports: dict[int, int]) -> None:
    """Writes a `sluice` whose `init` gives the first configuration the replaced ports."""
    edit = "; ".join(f's/:{port}"/:{other}"/' for port, other in ports.items())
    wrapper = tools / "sluice"
    wrapper.write_text(
        "#!/bin/bash\n"
        f'if [[ $1 == init ]]; then\n    "{binary}" "$@" || exit\n    sed --in-place -e \'{edit}\' sluice.toml\n'
        f"    sed --in-place 's|^\\[probes\\]|[probes]\\nlisten = \"127.0.0.1:{ports[9090]}\"|' sluice.toml\n"
        "    exit 0\nfi\n"
        f'exec "{binary}" "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)


def follow(binary: str, guide: Path, report: Report) -> None:
    """Runs the commands of a guide."""
    commands = "\n".join(text for language, text in read_blocks(guide) if language == "sh")
    if not commands:
        return
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        ports = {port: free_port() for port in PORTS}
        tools, work = Path(folder) / ".tools", Path(folder) / "work"
        tools.mkdir()
        work.mkdir()
        write_wrapper(binary, tools, ports)
        environment = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": folder, "SOURCE": str(ROOT)}
        child = subprocess.Popen(
            ["bash", "-c", SESSION + replace_ports(commands, ports)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        fault = ""
        try:
            output, _ = child.communicate(timeout=TIMEOUT_SECONDS)
            if child.returncode != 0:
                fault = f"ended with {child.returncode}\n{output.decode(errors='replace')[-3000:]}"
        except subprocess.TimeoutExpired:
            # Programs in the background have process groups of their own, but the same session.
            subprocess.run(["pkill", "--signal", "KILL", "--session", str(child.pid)], check=False)
            output, _ = child.communicate()
            fault = f"took longer than {TIMEOUT_SECONDS} s\n{output.decode(errors='replace')[-3000:]}"
        report.check(f"{guide.name}: its commands succeed", fault)


def check_links(guide: Path, report: Report) -> None:
    text = guide.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    dead = [link for link in links if not link.startswith("https://") and not (guide.parent / link).exists()]
    report.check(f"{guide.name}: every link leads somewhere", ", ".join(dead))
    unknown = {language for language, _ in read_blocks(guide)} - LANGUAGES
    report.check(f"{guide.name}: the language of every block is known", ", ".join(sorted(unknown)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("guides", nargs="*")
    arguments, report = parser.parse_args(), Report()
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    for guide in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]:
        if arguments.guides and guide.stem not in arguments.guides:
            continue
        is_listed = guide.name == "README.md" or f"]({guide.name})" in index
        report.check_that(f"{guide.name}: the index lists it", is_listed, "it does not")
        check_links(guide, report)
        follow(arguments.binary, guide, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

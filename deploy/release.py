#!/usr/bin/env python3
"""Makes what a release ships, after it has checked that the release is ready.

Usage: `python3 deploy/release.py --check` only checks; `python3 deploy/release.py FOLDER` checks, builds and writes to
the folder: the binary, the Debian package, the bill of materials, the contract, the schema of the configuration and
their SHA-256. The same commit gives the same files, byte for byte, on machines with the same compiler and C library.

The checks: the version is the same everywhere, the changelog has a section for it with notes for upgrades, and nothing
is uncommitted. That `tests/run long` passes is for people to see; the script asks.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / ".github" / "CHANGELOG.md"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def versions() -> dict[str, str]:
    """Returns the version that each file states."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    [locked] = [one for one in lock["package"] if one["name"] == package["name"] and "source" not in one]
    return {"Cargo.toml": package["version"], "Cargo.lock": locked["version"]}


def section_of(version: str) -> str | None:
    """Returns the section of the changelog about a version."""
    pattern = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return found and found.group(1)


def faults() -> list[str]:
    """Returns what stands in the way of a release."""
    found = []
    stated = versions()
    version = stated["Cargo.toml"]
    found += [f"{file} says {other}, Cargo.toml says {version}" for file, other in stated.items() if other != version]
    section = section_of(version)
    if section is None:
        found.append(f"the changelog has no section `## {version} (YYYY-MM-DD)`")
    elif "### Upgrade" not in section:
        found.append(f"the section {version} of the changelog has no `### Upgrade`")
    return found


def is_committed() -> bool:
    return not output_of("git", "status", "--porcelain")


def build(folder: Path) -> None:
    seconds = output_of("git", "log", "-1", "--format=%ct").strip()
    # No path of this machine is in the binary.
    flags = f"--remap-path-prefix={ROOT}=/sluice --remap-path-prefix={Path.home()}=/home"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds, "RUSTFLAGS": flags}
    command = ["cargo", "build", "--profile", "dist", "--locked", "--bin", "sluice"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    binary = TARGET / "dist" / "sluice"
    said = output_of(binary, "--version").split()[-1]
    if said != versions()["Cargo.toml"]:
        sys.exit(f"the binary says that it is {said}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sluice").write_bytes(binary.read_bytes())
    (folder / "sluice").chmod(0o755)
    package: list[str | Path] = [sys.executable, ROOT / "deploy/debian_package.py", binary, "--folder", folder]
    subprocess.run(package, check=True, env=environment)
    made = {
        "sluice.cdx.json": output_of(sys.executable, ROOT / "deploy/bill_of_materials.py"),
        "openapi.json": output_of(binary, "openapi"),
        "sluice.schema.json": output_of(binary, "config", "schema"),
    }
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS" and path.suffix != ".sha256")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(sums, end="")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the files of the release are written")
    parser.add_argument("--check", action="store_true", help="only check that the release is ready")
    parser.add_argument("--tested", action="store_true", help="`tests/run long` has passed on this commit")
    arguments = parser.parse_args()
    found = faults()
    if not arguments.check:
        found += [] if is_committed() else ["there are changes that are not committed"]
        found += [] if arguments.tested else ["run `tests/run long`; when it has passed, say so with --tested"]
        found += [] if arguments.folder else ["name the folder of the release"]
    for fault in found:
        print(f"not ready: {fault}", file=sys.stderr)
    if found:
        return 1
    if arguments.check:
        print(f"{versions()['Cargo.toml']} is ready")
        return 0
    build(arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

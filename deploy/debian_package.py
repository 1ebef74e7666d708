#!/usr/bin/env python3
"""Makes a Debian package of a built Sluice: binary, units, completions, man pages and guides.

Usage: `python3 deploy/debian_package.py BINARY [--folder FOLDER]`; it needs `dpkg-deb`, and `strip` if it is there.

The same binary and the same commit give the same package, byte for byte: all times are that of the commit, or
SOURCE_DATE_EPOCH. The package and its SHA-256 are written to the folder.
"""

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
SCRIPTS = ("postinst", "prerm", "postrm")
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/sluice",
    "zsh": "usr/share/zsh/vendor-completions/_sluice",
    "fish": "usr/share/fish/vendor_completions.d/sluice.fish",
}


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def commit_time() -> int:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given) if given else int(output_of("git", "log", "-1", "--format=%ct"))


def put(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)


def fill(tree: Path, binary: Path) -> None:
    """Puts all files of the package into a folder."""
    program = tree / "usr/bin/sluice"
    put(program, binary.read_bytes(), 0o755)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", program], check=True)
    for name in ("sluice.service", "sluice.socket"):
        unit = (DEPLOY / name).read_text(encoding="utf-8").replace("/usr/local/bin/", "/usr/bin/")
        put(tree / "usr/lib/systemd/system" / name, unit)
    for shell, place in COMPLETIONS.items():
        put(tree / place, output_of(binary.resolve(), "completions", shell))
    with tempfile.TemporaryDirectory() as pages:
        output_of(binary.resolve(), "man", "--folder", pages)
        for page in sorted(Path(pages).iterdir()):
            put(tree / "usr/share/man/man1" / f"{page.name}.gz", gzip.compress(page.read_bytes(), mtime=0))
    documents = tree / "usr/share/doc/sluice"
    for page in sorted((DEPLOY / "docs").glob("*.md")):
        put(documents / page.name, page.read_bytes())
    put(documents / "copyright", (ROOT / "LICENSE").read_bytes())
    put(documents / "changelog.gz", gzip.compress((ROOT / ".github/CHANGELOG.md").read_bytes(), mtime=0))
    put(documents / "sluice.toml", (DEPLOY / "sluice.toml").read_bytes())


def needed_libc(binary: Path) -> str:
    """Returns the newest version of the C library whose functions the binary names."""
    named = set(re.findall(rb"GLIBC_(\d+)\.(\d+)", binary.read_bytes()))
    major, minor = max((int(major), int(minor)) for major, minor in named)
    return f"{major}.{minor}"


def control(tree: Path, version: str, architecture: str) -> str:
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    return f"""Package: sluice
Version: {version}
Architecture: {architecture}
Maintainer: Sluice developers <sluice@localhost>
Installed-Size: {size}
Depends: libc6 (>= {needed_libc(tree / "usr/bin/sluice")}), ca-certificates, passwd
Recommends: systemd
Section: net
Priority: optional
Description: policy gateway in front of a stablecoin payments API
 Sluice stands between an organization's own services and a payments API. No swap and
 no offramp leaves in breach of the organization's rules, twice, unapproved or unrecorded.
"""


def build(binary: Path, folder: Path) -> Path:
    """Makes the package in a folder; returns its path."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]["version"]
    architecture = output_of("dpkg", "--print-architecture").strip()
    seconds = commit_time()
    package = folder / f"sluice_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        fill(tree, binary)
        put(tree / "DEBIAN/control", control(tree, version, architecture))
        for script in SCRIPTS:
            put(tree / "DEBIAN" / script, (DEPLOY / "debian" / script).read_bytes(), 0o755)
        for path in [tree, *tree.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (seconds, seconds))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
        command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(package)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return package


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=Path, help="a built `sluice`")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the package is written [default: here]")
    arguments = parser.parse_args()
    if not shutil.which("dpkg-deb"):
        sys.exit("dpkg-deb is missing: make the package on Debian or a system like it")
    if not re.match(r"sluice ", output_of(arguments.binary.resolve(), "--version")):
        sys.exit(f"{arguments.binary} is not Sluice")
    package = build(arguments.binary, arguments.folder)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    Path(f"{package}.sha256").write_text(f"{digest}  {package.name}\n", encoding="utf-8")
    print(f"{package}\nSHA-256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

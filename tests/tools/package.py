"""Makes the Debian package of a binary, and installs it in a root of its own.

Usage: `python tests/tools/package.py SLUICE`.

Two builds must be the same, byte for byte. The package is installed, run, upgraded, removed and purged by
`package_trial.sh`, in a copy of this machine's files that is forgotten afterwards (an overlay), without its network.
That needs root.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Report

ROOT = Path(__file__).resolve().parents[2]
TRIAL = Path(__file__).with_name("package_trial.sh")
# Runs in namespaces of its own for mounts, processes and network.
OWN_ROOT = """
set -e
ip link set lo up
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs tmpfs "$1/root/tmp"
cp "$2" "$1/root/root/sluice.deb"
cp "$3" "$1/root/root/trial.sh"
exec chroot "$1/root" sh /root/trial.sh
"""


def package_of(binary: str, folder: Path) -> Path:
    command = [sys.executable, str(ROOT / "deploy/debian_package.py"), binary, "--folder", str(folder)]
    # How small the package is does not matter here.
    environment = {**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    [package] = folder.glob("*.deb")
    return package


def check_package(report: Report, binary: str, place: Path) -> Path:
    folders = [place / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    packages = [package_of(binary, folder) for folder in folders]
    digests = [hashlib.sha256(package.read_bytes()).hexdigest() for package in packages]
    report.check_that("two builds of the package are the same", digests[0] == digests[1], digests)
    stated = Path(f"{packages[0]}.sha256").read_text(encoding="utf-8").split()[0]
    report.check_that("the digest beside the package is its own", stated == digests[0], stated)
    listed = subprocess.run(["dpkg-deb", "--contents", packages[0]], check=True, capture_output=True, text=True).stdout
    for wanted in (
        "./usr/bin/sluice",
        "./usr/lib/systemd/system/sluice.service",
        "./usr/share/man/man1/sluice.1.gz",
        "./usr/share/bash-completion/completions/sluice",
    ):
        report.check_that(f"the package has {wanted}", f" {wanted}\n" in listed, listed[:400])
    foreign = [line for line in listed.splitlines() if " root/root " not in line]
    report.check("every file of the package belongs to root", "\n".join(foreign))
    return packages[0]


def check_trial(report: Report, package: Path, place: Path) -> None:
    mounts = place / "mounts"
    mounts.mkdir()
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    command = [*own, "bash", "-c", OWN_ROOT, "trial", str(mounts), str(package), str(TRIAL)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    for line in run.stdout.splitlines():
        report.check_that(line.removeprefix("NOT SO: "), not line.startswith("NOT SO: "), line)
    report.check_that(
        "the trial of the package ends well", run.returncode == 0, f"{run.stdout[-800:]}{run.stderr[-800:]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=os.path.abspath)
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as place:
        package = check_package(report, arguments.binary, Path(place))
        check_trial(report, package, Path(place))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

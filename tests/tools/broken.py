"""Breaks guards of the gate on purpose, one at a time, and checks that a test fails each time.

Usage: `python tests/tools/broken.py FOLDER [--only TEXT]`. The guards stand in tests/broken.toml. The tool works in a
copy of the last commit and of its build in FOLDER, so that nothing of the checkout changes; it needs cargo-nextest.
"""

import argparse
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from report import Report

ROOT = Path(__file__).resolve().parents[2]
# What nextest returns when a test has failed.
TESTS_FAILED = 100
# How long building, and the tests of one guard, may take.
BUILD_SECONDS = 1_800
TEST_SECONDS = 900


class Guard(NamedTuple):
    """A guard, and how it is broken."""

    promise: int
    what: str
    file: str
    old: str
    new: str
    tests: list[str]


class Copy:
    """A copy of the last commit, with a build of its own."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "CARGO_INCREMENTAL": "1"}
        if not self.tree.exists():
            self.run(["git", "worktree", "add", "--detach", "--quiet", str(self.tree)], ROOT, BUILD_SECONDS)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        self.run(["git", "checkout", "--quiet", "--force", "--detach", head.stdout.strip()], self.tree, BUILD_SECONDS)

    def run(self, command: list[str], folder: Path, seconds: float) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=folder, env=self.environment, timeout=seconds, capture_output=True, text=True, check=False
        )

    def build(self) -> str:
        """Builds the tests; returns what the compiler says against it."""
        done = self.run(["cargo", "test", "--locked", "--no-run", "--quiet"], self.tree, BUILD_SECONDS)
        return "" if done.returncode == 0 else done.stderr[-2_000:]

    def failing_tests(self, tests: list[str]) -> list[str]:
        """Runs tests; returns the first that fails."""
        chosen = " + ".join(f"test({name})" for name in tests)
        command = ["cargo", "nextest", "run", "--locked", "--max-fail", "1", "--status-level", "fail", "-E", chosen]
        try:
            done = self.run(command, self.tree, TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return ["a test that does not end"]
        if done.returncode not in (0, TESTS_FAILED):
            raise RuntimeError(f"nextest cannot run {chosen}: {done.stderr[-2_000:]}")
        rows = [line.split() for line in done.stderr.splitlines()]
        return [row[-1] for row in rows if row and row[0] in ("FAIL", "TIMEOUT", "SIGABRT")]


def read_guards() -> list[Guard]:
    text = (ROOT / "tests/broken.toml").read_text(encoding="utf-8")
    return [Guard(**guard) for guard in tomllib.loads(text)["guard"]]


def break_guard(copy: Copy, guard: Guard, report: Report) -> None:
    begin = time.monotonic()
    path = copy.tree / guard.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(guard.old) != 1:
        report.check(guard.what, f"`old` stands {whole.count(guard.old)} times in {guard.file}")
        return
    try:
        path.write_text(whole.replace(guard.old, guard.new), encoding="utf-8")
        fault = copy.build()
        failing = [] if fault else copy.failing_tests(guard.tests)
    finally:
        path.write_text(whole, encoding="utf-8")
    report.check(guard.what, fault or ("" if failing else "no test noticed it"))
    said = f"{failing[0]} fails" if failing else "NOT NOTICED" if not fault else "CANNOT BE BUILT"
    print(f"  {guard.promise}: {guard.what} {said}, {time.monotonic() - begin:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only guards whose description has this text")
    arguments = parser.parse_args()
    report = Report()
    copy = Copy(arguments.folder.resolve())
    for guard in read_guards():
        if arguments.only in guard.what:
            break_guard(copy, guard, report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

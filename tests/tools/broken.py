"""Breaks guards of the gate on purpose, one at a time, and checks that a test fails each time.

Usage: `python tests/tools/broken.py FOLDER [--only TEXT]`. The guards stand in tests/broken.toml. The tool works in a
copy of the last commit and of its build in FOLDER, so that nothing of the checkout changes; it needs cargo-nextest.
One build has all guards, whole and broken; a file says which one is broken while tests run. A guard of the page is
broken in a copy of the page's files, which browser tests serve instead of those in the gate; its tests are such files.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from report import Report

ROOT = Path(__file__).resolve().parents[2]
# What is built of the package: the binary comes with its tests.
BUILT = ["--locked", "--lib", "--test", "main"]
# What nextest returns when a test has failed.
TESTS_FAILED = 100
# How long building, and the tests of one guard, may take.
BUILD_SECONDS = 1_800
TEST_SECONDS = 900


# Words before and behind an expression that stands alone.
HEAD = re.compile(r"((?:if|match|break|return) |let [a-z_]+ = |[a-z_]+: )")
# What the copy has besides: whether a guard is broken, and the script of the Redis with its guard broken.
SWITCH = """
fn broken_guard() -> &'static str {{
    static BROKEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    BROKEN.get_or_init(|| std::fs::read_to_string({file}).unwrap_or_default())
}}
pub fn is_broken(guard: &str) -> bool {{
    broken_guard() == guard
}}
pub fn broken_script(script: &str) -> String {{
    match broken_guard() {{
{arms}        _ => script.to_owned(),
    }}
}}
"""
SCRIPT = ("src/adapters/store/redis/mod.rs", "Script::new(SCRIPT)", "Script::new(&crate::broken_script(SCRIPT))")


class Guard(NamedTuple):
    """A guard, and how it is broken."""

    promise: int
    what: str
    file: str
    old: str
    new: str
    tests: list[str]


def is_balanced(code: str) -> bool:
    return all(code.count(one) == code.count(other) for one, other in ("()", "[]", "{}"))


def switched(guard: Guard, name: str) -> str | None:
    """Returns code that is whole, or broken while the file says so; `None` where the text is no code of its own."""
    test = f'crate::is_broken("{name}")'
    heads = [HEAD.match(code) for code in (guard.old, guard.new)]
    head = heads[0].group() if heads[0] else ""
    tail = next((tail for tail in (" {", ";", ",") if guard.old.endswith(tail) and guard.new.endswith(tail)), "")
    if head and tail and heads[1] and heads[1].group() == head:
        old, new = (code[len(head) : -len(tail)] for code in (guard.old, guard.new))
        if is_balanced(old) and is_balanced(new) and "let " not in old + new:
            choice = f"if {test} {{ {new} }} else {{ {old} }}"
            return f"{head}({choice}){tail}" if tail == " {" else f"{head}{choice}{tail}"
    both = (guard.old, guard.new)
    if head or not all(is_balanced(code) for code in both):
        return None
    if any(code.startswith("let ") for code in both):
        return None
    arms = [code.removesuffix(",").rpartition(" => ") for code in both]
    if tail == "," and arms[0][0] and arms[0][0] == arms[1][0]:
        return f"{arms[0][0]} => if {test} {{ {arms[1][2]} }} else {{ {arms[0][2]} }},"
    if all(code.endswith(";") for code in both):
        return f"if {test} {{ {guard.new} }} else {{ {guard.old} }}"
    is_expression = not tail and not any(code.endswith((";", ",", "=")) for code in both)
    return f"(if {test} {{ {guard.new} }} else {{ {guard.old} }})" if is_expression else None


class Copy:
    """A copy of the last commit, with a build of its own."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.which = folder / "which"
        self.environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "CARGO_INCREMENTAL": "1"}
        if not self.tree.exists():
            self.run(["git", "worktree", "add", "--detach", "--quiet", str(self.tree)], ROOT, BUILD_SECONDS)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        self.run(["git", "checkout", "--quiet", "--force", "--detach", head.stdout.strip()], self.tree, BUILD_SECONDS)

    def run(self, command: list[str], folder: Path, seconds: float) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=folder, env=self.environment, timeout=seconds, capture_output=True, text=True, check=False
        )

    def replace(self, file: str, old: str, new: str) -> str:
        """Replaces a text that stands once in a file; returns what is wrong otherwise."""
        path = self.tree / file
        whole = path.read_text(encoding="utf-8")
        if whole.count(old) != 1:
            return f"`old` stands {whole.count(old)} times in {file}"
        path.write_text(whole.replace(old, new), encoding="utf-8")
        return ""

    def switch(self, guards: list[Guard]) -> dict[str, str]:
        """Puts all guards into the copy, whole and broken; returns what is wrong with those that cannot be."""
        faults: dict[str, str] = {}
        arms = ""
        for nth, guard in enumerate(guards):
            if guard.file.endswith((".lua", ".js")):
                is_once = (self.tree / guard.file).read_text(encoding="utf-8").count(guard.old) == 1
                faults[guard.what] = "" if is_once else f"`old` does not stand once in {guard.file}"
            if guard.file.endswith(".js"):
                continue
            if guard.file.endswith(".lua"):
                arms += f'        "{nth}" => script.replace({json.dumps(guard.old)}, {json.dumps(guard.new)}),\n'
            elif (code := switched(guard, str(nth))) is None:
                faults[guard.what] = "`old` and `new` are no conditions, values or statements of their own"
            else:
                faults[guard.what] = self.replace(guard.file, guard.old, code)
        library = self.tree / "src/lib.rs"
        switch = SWITCH.format(file=json.dumps(str(self.which)), arms=arms)
        library.write_text(library.read_text(encoding="utf-8") + switch, encoding="utf-8")
        self.replace(*SCRIPT)
        return faults

    def build(self) -> str:
        """Builds the tests; returns what the compiler says against it."""
        done = self.run(["cargo", "test", "--no-run", "--quiet", *BUILT], self.tree, BUILD_SECONDS)
        errors = [said for said in done.stderr.split("\n\n") if said.startswith("error")]
        return "" if done.returncode == 0 else "\n\n".join(errors)[:4_000]

    def failing_page_test(self, guard: Guard, *, is_broken: bool) -> str:
        """Runs browser tests with the page's files, one of them broken; returns the first file that fails."""
        page = self.which.with_name("page")
        shutil.rmtree(page, ignore_errors=True)
        shutil.copytree((self.tree / guard.file).parent, page)
        if is_broken:
            file = page / Path(guard.file).name
            file.write_text(file.read_text(encoding="utf-8").replace(guard.old, guard.new), encoding="utf-8")
        # The tools of the browser tests stand in the target folder of the checkout.
        target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
        sluice = str(Path(self.environment["CARGO_TARGET_DIR"]) / "debug/sluice")
        environment = {**os.environ, "CARGO_TARGET_DIR": target, "SLUICE": sluice, "PAGE": str(page)}
        for test in guard.tests:
            command = ["node", "--test", str(ROOT / "tests/browser" / test)]
            try:
                done = subprocess.run(command, env=environment, timeout=TEST_SECONDS, capture_output=True, check=False)
            except subprocess.TimeoutExpired:
                return test
            if done.returncode != 0:
                return test
        return ""

    def failing_test(self, tests: list[str]) -> str:
        """Runs tests; returns the first that fails, or nothing."""
        chosen = " + ".join(f"test({name})" for name in tests)
        options = ["--max-fail", "1", "--status-level", "fail", "--final-status-level", "none", "-E", chosen]
        try:
            done = self.run(["cargo", "nextest", "run", *BUILT, *options], self.tree, TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return "a test that does not end"
        if done.returncode not in (0, TESTS_FAILED):
            raise RuntimeError(f"nextest cannot run {chosen}: {done.stderr[-2_000:]}")
        rows = [line.split() for line in done.stderr.splitlines()]
        failed = [row[-1] for row in rows if row and row[0] in ("FAIL", "TIMEOUT", "SIGABRT")]
        return failed[0] if failed else ""


def read_guards() -> list[Guard]:
    text = (ROOT / "tests/broken.toml").read_text(encoding="utf-8")
    return [Guard(**guard) for guard in tomllib.loads(text)["guard"]]


def break_guard(copy: Copy, name: str, guard: Guard) -> str:
    """Returns what is wrong: no test fails, or a test fails although nothing is broken."""
    begin = time.monotonic()
    is_of_page = guard.file.endswith(".js")
    try:
        copy.which.write_text(name, encoding="utf-8")
        failing = copy.failing_page_test(guard, is_broken=True) if is_of_page else copy.failing_test(guard.tests)
        copy.which.write_text("", encoding="utf-8")
        # A test that fails always notices nothing.
        if is_of_page:
            without = copy.failing_page_test(guard, is_broken=False)
        else:
            without = copy.failing_test([failing]) if "::" in failing else ""
    except RuntimeError as error:
        return str(error)
    finally:
        copy.which.write_text("", encoding="utf-8")
    said = f"{failing} fails" if failing else "NOT NOTICED"
    print(f"  {guard.promise}: {guard.what} {said}, {time.monotonic() - begin:.0f} s", flush=True)
    if without:
        return f"{without} fails although nothing is broken"
    return "" if failing else "no test noticed it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="only guards whose description has this text")
    arguments = parser.parse_args()
    report = Report()
    copy = Copy(arguments.folder.resolve())
    guards = read_guards()
    faults = copy.switch(guards)
    if fault := copy.build():
        report.check("all guards are built", fault)
        return report.close()
    report.check_that("a guard has that text", any(arguments.only in guard.what for guard in guards), arguments.only)
    for nth, guard in enumerate(guards):
        if arguments.only in guard.what:
            report.check(guard.what, faults[guard.what] or break_guard(copy, str(nth), guard))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

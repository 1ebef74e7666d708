"""Keeps the policy of dependencies: `python tests/tools/dependencies.py`.

Reads `cargo metadata` and holds it against dependencies.toml beside this file:
licences, sources, crates that must be absent, crates that must stand once.
Needs no network: what only an advisory database tells is not asked here.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from report import Report

SOURCES = {"registry+https://github.com/rust-lang/crates.io-index": "crates.io"}


class Licence:
    """An SPDX expression, as the alternatives of licences that must all be kept."""

    def __init__(self, expression):
        # Crates older than SPDX write `/` for `OR`.
        text = re.sub(r"\s*/\s*", " OR ", expression)
        text = re.sub(r"(\S+)\s+WITH\s+(\S+?)(?=[\s)]|$)", r"\1~\2", text)
        self.words = re.findall(r"[()]|[^\s()]+", text)
        self.alternatives = self.either()
        if self.words:
            raise ValueError(f"`{expression}` is no SPDX expression")

    def either(self):
        found = self.both()
        while self.words[:1] == ["OR"]:
            self.words.pop(0)
            found = found + self.both()
        return found

    def both(self):
        found = self.one()
        while self.words[:1] == ["AND"]:
            self.words.pop(0)
            more = self.one()
            found = [left | right for left in found for right in more]
        return found

    def one(self):
        word = self.words.pop(0)
        if word != "(":
            return [frozenset([word.replace("~", " WITH ")])]
        found = self.either()
        self.words.pop(0)
        return found


def check_licences(packages, allow, report):
    used = set()
    for package in packages:
        expression = package["license"]
        alternatives = Licence(expression).alternatives if expression else []
        kept = [names for names in alternatives if names <= allow]
        used.update(*kept)
        report.check(name_of(package), "" if kept else f"licence `{expression}` is not allowed")
    for name in sorted(allow - used):
        report.check(f"licence {name}", "is allowed, but no crate has it")


def check_sources(packages, allow, report):
    for package in packages:
        source = package["source"]
        known = source is None or SOURCES.get(source) in allow
        report.check(name_of(package), "" if known else f"comes from `{source}`")


def check_absent(packages, absent, report):
    names = {package["name"] for package in packages}
    for name, reason in absent.items():
        report.check(name, reason if name in names else "")


def check_single(packages, single, twice, report):
    versions = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    for name in single:
        found = sorted(versions.get(name, []))
        excused = sorted(twice.get(name, {}).get("versions", []))
        if not found:
            report.check(name, "is listed in [single], but no crate has this name")
        elif name in twice:
            report.check(name, "" if found == excused else f"stands as {found}; [twice] says {excused}")
        else:
            report.check(name, "" if len(found) == 1 else f"stands as {found}")
    for name, entry in twice.items():
        stray = "" if name in single and entry.get("reason") else "needs a reason, and a place in [single]"
        report.check(f"[twice] {name}", stray)


def name_of(package):
    return f"{package['name']} {package['version']}"


def metadata():
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    policy = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    packages = metadata()["packages"]
    report = Report()
    check_licences(packages, set(policy["licences"]["allow"]), report)
    check_sources(packages, policy["sources"]["allow"], report)
    check_absent(packages, policy["absent"], report)
    check_single(packages, policy["single"]["crates"], policy["twice"], report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

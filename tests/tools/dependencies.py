"""Checks the project's crates against dependencies.toml, the dependency policy.

Usage: `python tests/tools/dependencies.py`.

Reads `cargo metadata` and checks licences, sources, crates that must be absent, crates that may have one version only,
and known faults, which advisories.json lists. Checks the bill of materials, which packages and images bring along, with
a public validator. Needs no network.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from advisories import Advisories, read_advisories
from report import Report

SOURCES = {"registry+https://github.com/rust-lang/crates.io-index": "crates.io"}

# A crate, as `cargo metadata` describes it.
Package = dict[str, Any]


class Licence:
    """An SPDX expression, as alternative sets of licences; all licences of a set must be kept."""

    def __init__(self, expression: str) -> None:
        # Crates older than SPDX write `/` for `OR`.
        text = re.sub(r"\s*/\s*", " OR ", expression)
        text = re.sub(r"(\S+)\s+WITH\s+(\S+?)(?=[\s)]|$)", r"\1~\2", text)
        self.words: list[str] = re.findall(r"[()]|[^\s()]+", text)
        self.alternatives = self.parse_or()
        if self.words:
            raise ValueError(f"`{expression}` is no SPDX expression")

    def parse_or(self) -> list[frozenset[str]]:
        found = self.parse_and()
        while self.words[:1] == ["OR"]:
            self.words.pop(0)
            found = found + self.parse_and()
        return found

    def parse_and(self) -> list[frozenset[str]]:
        found = self.parse_term()
        while self.words[:1] == ["AND"]:
            self.words.pop(0)
            more = self.parse_term()
            found = [left | right for left in found for right in more]
        return found

    def parse_term(self) -> list[frozenset[str]]:
        word = self.words.pop(0)
        if word != "(":
            return [frozenset([word.replace("~", " WITH ")])]
        found = self.parse_or()
        self.words.pop(0)
        return found


def check_licences(packages: list[Package], allow: set[str], report: Report) -> None:
    used: set[str] = set()
    for package in packages:
        expression = package["license"]
        alternatives = Licence(expression).alternatives if expression else []
        kept = [names for names in alternatives if names <= allow]
        used.update(*kept)
        report.check_that(full_name(package), bool(kept), f"licence `{expression}` is not allowed")
    for name in sorted(allow - used):
        report.check(f"licence {name}", "is allowed, but no crate has it")


def check_sources(packages: list[Package], allow: list[str], report: Report) -> None:
    for package in packages:
        source = package["source"]
        is_known = source is None or SOURCES.get(source) in allow
        report.check_that(full_name(package), is_known, f"comes from `{source}`")


def check_absent(packages: list[Package], absent: dict[str, str], report: Report) -> None:
    names = {package["name"] for package in packages}
    for name, reason in absent.items():
        report.check(name, reason if name in names else "")


def check_single(packages: list[Package], single: list[str], twice: dict[str, Any], report: Report) -> None:
    versions: dict[str, list[str]] = {}
    for package in packages:
        versions.setdefault(package["name"], []).append(package["version"])
    for name in single:
        found = sorted(versions.get(name, []))
        excused = sorted(twice.get(name, {}).get("versions", []))
        if not found:
            report.check(name, "is listed in [single], but no crate has this name")
        elif name in twice:
            report.check_that(name, found == excused, f"has versions {found}; [twice] lists {excused}")
        else:
            report.check_that(name, len(found) == 1, f"has versions {found}")
    for name, entry in twice.items():
        is_justified = name in single and bool(entry.get("reason"))
        report.check_that(f"[twice] {name}", is_justified, "needs a reason, and an entry in [single]")


def check_advisories(packages: list[Package], advisories: Advisories, accepted: dict[str, str], report: Report) -> None:
    print(f"known faults up to {advisories.day}")
    report.check_that("faults of long ago are known", len(advisories.of("hyper", "0.9.3")) > 0, "none of hyper 0.9.3")
    met: set[str] = set()
    for package in packages:
        found = {advisory.name: advisory.kind for advisory in advisories.of(package["name"], package["version"])}
        met.update(found)
        faults = [f"{name} ({kind})" for name, kind in found.items() if name not in accepted]
        report.check(full_name(package), ", ".join(faults))
    for name in sorted(set(accepted) - met):
        report.check(f"[advisories] {name}", "is accepted, but no crate has it")


def check_bill(report: Report) -> None:
    """Checks form and order of the bill, and that it names what the binary is made of and nothing else."""
    command = [sys.executable, "deploy/bill_of_materials.py"]
    first, again = (subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout for _ in range(2))
    report.check_that("two bills are the same", first == again, "they differ")
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(first.decode())
    report.check_that("the bill is CycloneDX", fault is None, fault)
    names = {component["name"] for component in json.loads(first)["components"]}
    for name, is_part in {
        "pingora-core": True,
        "ring": True,
        "mimalloc": True,
        "proptest": False,
        "redox_syscall": False,
    }.items():
        report.check_that(f"the bill knows {name}", (name in names) == is_part, f"is listed: {name in names}")


def full_name(package: Package) -> str:
    return f"{package['name']} {package['version']}"


def read_packages() -> list[Package]:
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages: list[Package] = metadata["packages"]
    return packages


def main() -> int:
    policy = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    packages = read_packages()
    report = Report()
    check_licences(packages, set(policy["licences"]["allow"]), report)
    check_sources(packages, policy["sources"]["allow"], report)
    check_absent(packages, policy["absent"], report)
    check_single(packages, policy["single"]["crates"], policy["twice"], report)
    check_advisories(packages, read_advisories(), policy["advisories"]["accepted"], report)
    check_bill(report)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())

"""Knows which versions of crates have known faults; `dependencies.py` asks it.

Usage: `python tests/tools/advisories.py FOLDER` makes `advisories.json` anew from a checkout of the RustSec advisory
database (github.com/rustsec/advisory-db). The file is brought along because tests need no network; it holds the facts
alone: for each crate the number of each advisory, its kind, and the versions without the fault.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

FILE = Path(__file__).with_suffix(".json")


class Advisory(NamedTuple):
    """A fault of a crate, and the versions that do not have it, as Cargo's requirements."""

    name: str
    # `vulnerability`, `unsound`, `notice` or `unmaintained`.
    kind: str
    unaffected: list[str]

    def affects(self, version: str) -> bool:
        return not any(Version(version) in specifiers(requirement) for requirement in self.unaffected)


class Advisories(NamedTuple):
    """All advisories, by crate."""

    # The day of the newest change.
    day: str
    by_crate: dict[str, list[Advisory]]

    def of(self, crate: str, version: str) -> list[Advisory]:
        return [advisory for advisory in self.by_crate.get(crate, []) if advisory.affects(version)]


def specifiers(requirement: str) -> SpecifierSet:
    """Reads a requirement as Cargo does: a version without an operator stands for all that are compatible."""
    found: list[str] = []
    for part in requirement.split(","):
        operator, version = re.fullmatch(r"\s*([<>=^~]*)\s*(\S+)\s*", part).groups()  # type: ignore[union-attr]
        if operator in ("", "^"):
            numbers = [int(number) for number in re.split(r"[-+]", version)[0].split(".")]
            first = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
            end = ".".join(str(number) for number in [*numbers[:first], numbers[first] + 1])
            found += [f">={version}", f"<{end}"]
        elif operator == "~":
            found.append(f"~={version}")
        else:
            found.append("==" + version if operator == "=" else operator + version)
    return SpecifierSet(",".join(found), prereleases=True)


def read_advisories() -> Advisories:
    text = json.loads(FILE.read_text(encoding="utf-8"))
    by_crate = {name: [Advisory(*one) for one in advisories] for name, advisories in text["crates"].items()}
    return Advisories(text["day"], by_crate)


def read_database(folder: Path) -> dict[str, list[Advisory]]:
    """Reads a checkout of the database; what was withdrawn does not count."""
    found: dict[str, list[Advisory]] = {}
    for file in sorted(folder.glob("crates/*/RUSTSEC-*.md")):
        block = re.search(r"```toml\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
        if block is None:
            raise ValueError(f"{file} does not begin with a block of TOML")
        record = tomllib.loads(block[1])
        about, versions = record["advisory"], record.get("versions", {})
        if "withdrawn" not in about:
            unaffected = versions.get("patched", []) + versions.get("unaffected", [])
            advisory = Advisory(about["id"], about.get("informational", "vulnerability"), unaffected)
            found.setdefault(about["package"], []).append(advisory)
    return found


def main() -> int:
    folder = Path(sys.argv[1])
    command = ["git", "-C", str(folder), "log", "-1", "--format=%cs"]
    day = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    crates = read_database(folder)
    rows = [f"{json.dumps(name)}: {json.dumps(crates[name])}" for name in sorted(crates)]
    FILE.write_text(f'{{"day": "{day}", "crates": {{\n' + ",\n".join(rows) + "\n}}\n", encoding="utf-8")
    print(f"{sum(map(len, crates.values()))} advisories about {len(crates)} crates, up to {day}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints the bill of materials of the gate's binary, as CycloneDX in JSON: each crate, its version, licence and digest.

Usage: `python3 deploy/bill_of_materials.py [TARGET] > sluice.cdx.json`; TARGET is `x86_64-unknown-linux-gnu` unless
told. It needs Python's standard library and cargo, and reads Cargo.lock: two runs on one state print the same bytes.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = "x86_64-unknown-linux-gnu"
ROOT_NAME = "sluice"


def read_metadata(target: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    return metadata


def read_digests() -> dict[tuple[str, str], str]:
    """Returns the SHA-256 of each crate's archive, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {(one["name"], one["version"]): one["checksum"] for one in lock["package"] if "checksum" in one}


def needed(nodes: dict[str, dict[str, Any]], root: str) -> set[str]:
    """Returns what the binary needs to be built: no crates that only tests use."""
    found, open_ids = {root}, [root]
    while open_ids:
        more = set(dependencies(nodes[open_ids.pop()])) - found
        found |= more
        open_ids += more
    return found


def dependencies(node: dict[str, Any]) -> Iterator[str]:
    for dependency in node["deps"]:
        if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
            yield dependency["pkg"]


def reference(package: dict[str, Any]) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def describe(package: dict[str, Any], digests: dict[tuple[str, str], str]) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "application" if package["name"] == ROOT_NAME else "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        # Crates older than SPDX write `/` for `OR`.
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if digest := digests.get((package["name"], package["version"])):
        component["hashes"] = [{"alg": "SHA-256", "content": digest}]
    return component


def make_bill(target: str) -> dict[str, Any]:
    metadata, digests = read_metadata(target), read_digests()
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    parts = sorted(needed(nodes, root), key=lambda one: (packages[one]["name"], packages[one]["version"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": describe(packages[root], digests)},
        "components": [describe(packages[one], digests) for one in parts if one != root],
        "dependencies": [
            {
                "ref": reference(packages[one]),
                "dependsOn": sorted({reference(packages[other]) for other in dependencies(nodes[one])}),
            }
            for one in parts
        ],
    }


if __name__ == "__main__":
    json.dump(make_bill(sys.argv[1] if len(sys.argv) > 1 else TARGET), sys.stdout, indent=1)
    print()

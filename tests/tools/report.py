"""Reads the arguments of a tool, counts its checks, and ends with a summary line that test runners know."""

import argparse
import os


def parse_arguments(about: str | None) -> argparse.Namespace:
    """Returns the arguments of a tool that runs a gate from a seed: `binary`, `long` and `seed`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("binary", type=os.path.abspath)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Report:
    """The results of one tool's checks."""

    def __init__(self) -> None:
        self.passed = 0
        self.failures: list[str] = []

    def check(self, what: str, fault: str) -> None:
        """Counts one check; `fault` is empty if it passed."""
        if fault:
            self.failures.append(f"{what}: {fault}")
        else:
            self.passed += 1

    def check_that(self, what: str, holds: bool, fault: object) -> None:
        """Counts one check, which passed if `holds`; the report shows `fault` otherwise."""
        self.check(what, "" if holds else str(fault) or "failed")

    def close(self) -> int:
        """Prints the failures and the counts; returns the exit code."""
        for failure in self.failures:
            print(f"FAILED {failure}")
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures else 0

"""Counts checks, and closes with a line that runners of tests understand."""


class Report:
    def __init__(self):
        self.passed = 0
        self.failures = []

    def check(self, what, why):
        """Counts one check; `why` is empty if it passed."""
        if why:
            self.failures.append(f"{what}: {why}")
        else:
            self.passed += 1

    def close(self):
        """Tells the failures and the counts; the exit code."""
        for failure in self.failures:
            print(f"FAILED {failure}")
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures else 0

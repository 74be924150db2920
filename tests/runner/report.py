"""What a test run prints: a line per case, and the totals."""

import collections

OK, FAIL, SKIP = "ok", "FAIL", "skip"


def output(path, lines):
    """Shows what a failed program or check has written to `path`."""
    print(f"     output, in {path}:")
    for line in lines:
        print(f"     > {line}")
    print(end="", flush=True)


class Report:
    """Prints each outcome as it comes and counts it."""

    def __init__(self):
        self._counts = collections.Counter()
        self._failed = []

    def suite(self, name):
        print(f"== {name}", flush=True)

    def case(self, outcome, name, reason="", detail=()):
        """One case. `detail` are lines that explain a failure."""
        self._counts[outcome] += 1
        if outcome == FAIL:
            self._failed.append(name)
        print(f"{outcome:4} {name}" + (f": {reason}" if reason else ""))
        for line in detail:
            print(f"     | {line}")
        print(end="", flush=True)

    def finish(self):
        """Prints the totals as the last line. Returns the exit status."""
        if len(self._failed) > 1:
            print("== failed")
            for name in self._failed:
                print(f"     {name}")
        print(f"{self._counts[OK]} passed, {self._counts[FAIL]} failed, {self._counts[SKIP]} skipped",
              flush=True)
        return 1 if self._failed else 0

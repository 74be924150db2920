"""What a test run prints: a line per case, and the totals."""

import collections
import threading

OK, FAIL, SKIP = "ok", "FAIL", "skip"


def output(path, lines):
    """Shows what a failed program or check has written to `path`."""
    print("\n".join([f"     output, in {path}:", *(f"     > {line}" for line in lines)]), flush=True)


class Report:
    """Prints each outcome as it comes and counts it. Any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._counts = collections.Counter()
        self._failed = []

    def suite(self, name):
        print(f"== {name}", flush=True)

    def case(self, outcome, name, reason="", detail=()):
        """One case. `detail` are lines that explain a failure."""
        lines = [f"{outcome:4} {name}" + (f": {reason}" if reason else ""), *(f"     | {line}" for line in detail)]
        with self._lock:
            self._counts[outcome] += 1
            if outcome == FAIL:
                self._failed.append(name)
            print("\n".join(lines), flush=True)

    def finish(self):
        """Prints the totals as the last line. Returns the exit status."""
        if len(self._failed) > 1:
            print("== failed")
            for name in self._failed:
                print(f"     {name}")
        print(f"{self._counts[OK]} passed, {self._counts[FAIL]} failed, {self._counts[SKIP]} skipped",
              flush=True)
        return 1 if self._failed else 0

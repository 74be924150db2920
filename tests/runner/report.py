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
        self._unsteady = []

    def suite(self, name):
        print(f"== {name}", flush=True)

    def case(self, outcome, name, reason="", detail=()):
        """One case. `detail` are lines that explain a failure."""
        with self._lock:
            self._counts[outcome] += 1
            if outcome == FAIL:
                self._failed.append(name)
        self.show(outcome, name, reason, detail)

    def show(self, outcome, name, reason="", detail=()):
        """A case as `case` prints it, not counted."""
        lines = [f"{outcome:4} {name}" + (f": {reason}" if reason else ""), *(f"     | {line}" for line in detail)]
        with self._lock:
            print("\n".join(lines), flush=True)

    def forgive(self, name):
        """A case that was counted as failed has passed at its second attempt."""
        self.show(OK, name)
        with self._lock:
            self._counts[FAIL] -= 1
            self._counts[OK] += 1
            self._failed.remove(name)
            self._unsteady.append(name)

    def finish(self):
        """Prints the totals as the last line. Returns the exit status."""
        for name in self._failed:
            print(f"failed: {name}")
        for name in self._unsteady:
            print(f"unsteady: {name}: failed, and passed at a second attempt")
        print(f"{self._counts[OK]} passed, {self._counts[FAIL]} failed, {self._counts[SKIP]} skipped",
              flush=True)
        return 1 if self._failed else 0

"""What a test run prints: a line per case, and the totals."""

import collections
import threading

OK, FAIL, SKIP = "ok", "FAIL", "skip"


def _cut(text, length=400):
    """In one line, for the totals: they may be all that is left of a long log."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[:length] + "…"


def output(path, lines):
    """Shows what a failed program or check has written to `path`."""
    print("\n".join([f"     output, in {path}:", *(f"     > {line}" for line in lines)]), flush=True)


class Report:
    """Prints each outcome as it comes and counts it. Any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._counts = collections.Counter()
        self._failed = []  # names, each with why
        self._unsteady = []

    def suite(self, name):
        print(f"== {name}", flush=True)

    def case(self, outcome, name, reason="", detail=()):
        """One case. `detail` are lines that explain a failure."""
        with self._lock:
            self._counts[outcome] += 1
            if outcome == FAIL:
                self._failed.append((name, _cut("; ".join([*([reason] if reason else []), *detail]))))
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
            self._failed.remove(next(each for each in self._failed if each[0] == name))
            self._unsteady.append(name)

    def finish(self):
        """Prints the totals as the last line. Returns the exit status."""
        for name, why in self._failed:
            print(f"failed: {name}" + (f": {why}" if why else ""))
        for name in self._unsteady:
            print(f"unsteady: {name}: failed, and passed at a second attempt")
        print(f"{self._counts[OK]} passed, {self._counts[FAIL]} failed, {self._counts[SKIP]} skipped",
              flush=True)
        return 1 if self._failed else 0

"""Second attempts at what failed by an assertion alone, on machines that are shared with others.

Real daemons under real time limits fail now and then where a machine stands still for seconds. Such a case is run once
more, by itself, and what passes then is named in the totals, so that it can be looked into. Nothing else is forgiven:
not a crash, a sanitizer's report, a time-out or a process left running, nor more than a few cases of a run.
"""

import report

MOST = 3  # cases of a run of tests/run


class SecondAttempts:
    """Of one run. `outcome` is its Report."""

    def __init__(self, outcome):
        self._outcome = outcome
        self._left = MOST

    def run(self, tasks, run):
        """run(tasks, on_case), as the suite does it; then once more what may be. Returns the first outcomes by label."""
        failed = {}

        def first(kind, name, reason, detail):
            self._outcome.case(kind, name, reason, detail)
            if kind == report.FAIL:
                label = next(task.label for task in tasks if name.startswith(f"{task.label}: "))
                failed.setdefault(label, []).append(name)

        outcomes = run(tasks, first)
        again = [task for task in tasks
                 if task.label in failed and f"{task.label}: the program" not in failed[task.label]]
        wanted = {name for task in again for name in failed[task.label]}
        if not wanted or len(wanted) > self._left:
            return outcomes
        self._left -= len(wanted)
        self._outcome.suite(f"once more: {', '.join(task.label for task in again)}")

        passed, broken = set(), set()

        def second(kind, name, reason, detail):
            if kind == report.FAIL:
                broken.add(name)
                if name in wanted:
                    detail = (*detail, "it failed at the first attempt, too")
                    self._outcome.show(kind, name, reason, detail)
                else:
                    self._outcome.case(kind, name, reason, detail)
            elif kind == report.OK and name in wanted:
                passed.add(name)

        run(again, second)
        if not any(name.endswith(": the program") for name in broken):
            for name in sorted(passed - broken):
                self._outcome.forgive(name)
        return outcomes

import contextlib
import io
import pathlib
import unittest

import program
import report
import second_attempt


class SecondAttemptTest(unittest.TestCase):
    """What may be run once more is, is named, and nothing else is forgiven."""

    def attempt(self, *attempts, labels=("s/p", "s/q")):
        """Runs programs whose cases end as each attempt says: {name: outcome}. Returns the exit status."""
        self.ran = []
        left = list(attempts)

        def run(tasks, on_case):
            self.ran.append([task.label for task in tasks])
            for name, outcome in left.pop(0).items():
                on_case(outcome, name, "", ())
            return {task.label: [] for task in tasks}

        tasks = [program.Task(pathlib.Path(label), label, 1) for label in labels]
        outcome = report.Report()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            second_attempt.SecondAttempts(outcome).run(tasks, run)
            status = outcome.finish()
        self.said = said.getvalue().splitlines()
        return status

    def test_what_passes_is_run_once(self):
        self.assertEqual(self.attempt({"s/p: a": report.OK}), 0)
        self.assertEqual(self.ran, [["s/p", "s/q"]])
        self.assertEqual(self.said[-1], "1 passed, 0 failed, 0 skipped")

    def test_a_case_that_passes_then_is_counted_and_named(self):
        first = {"s/p: a": report.OK, "s/q: b": report.FAIL}
        self.assertEqual(self.attempt(first, {"s/q: b": report.OK}), 0)
        self.assertEqual(self.ran, [["s/p", "s/q"], ["s/q"]])
        self.assertIn("unsteady: s/q: b: failed, and passed at a second attempt", self.said)
        self.assertEqual(self.said[-1], "2 passed, 0 failed, 0 skipped")

    def test_a_case_that_fails_twice_has_failed_once(self):
        self.assertEqual(self.attempt({"s/p: a": report.FAIL}, {"s/p: a": report.FAIL}), 1)
        self.assertEqual(self.said[-1], "0 passed, 1 failed, 0 skipped")

    def test_a_case_that_is_skipped_then_has_failed(self):
        self.assertEqual(self.attempt({"s/p: a": report.FAIL}, {"s/p: a": report.SKIP}), 1)

    def test_what_fails_only_then_is_a_failure_too(self):
        first = {"s/p: a": report.FAIL, "s/p: b": report.OK}
        self.assertEqual(self.attempt(first, {"s/p: a": report.OK, "s/p: b": report.FAIL}), 1)
        self.assertEqual(self.said[-1], "2 passed, 1 failed, 0 skipped")

    def test_a_program_that_crashes_leaves_something_or_takes_too_long_has_failed(self):
        self.assertEqual(self.attempt({"s/p: a": report.FAIL, "s/p: the program": report.FAIL}), 1)
        self.assertEqual(len(self.ran), 1)

    def test_a_crash_at_the_second_attempt_forgives_nothing(self):
        second = {"s/p: a": report.OK, "s/p: the program": report.FAIL}
        self.assertEqual(self.attempt({"s/p: a": report.FAIL}, second), 1)
        self.assertEqual(self.said[-1], "0 passed, 2 failed, 0 skipped")

    def test_many_failures_are_no_accident(self):
        many = {f"s/p: {n}": report.FAIL for n in range(second_attempt.MOST + 1)}
        self.assertEqual(self.attempt(many), 1)
        self.assertEqual(len(self.ran), 1)


if __name__ == "__main__":
    unittest.main()

import pathlib
import tempfile
import types
import unittest

import fuzz
import report


class Outcomes(report.Report):
    def __init__(self):
        super().__init__()
        self.seen = []

    def case(self, outcome, name, reason="", detail=()):
        self.seen.append((outcome, name, reason))


class FuzzTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="onecopy-fuzz.")
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        (self.root / "tests/fuzz/corpus/target").mkdir(parents=True)

    def run_script(self, script, name="target"):
        """What comes of a program that is this script, in place of a fuzz target."""
        program = self.root / name
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        logs = self.root / "logs"
        logs.mkdir(exist_ok=True)
        outcomes = Outcomes()
        shown, report.output = report.output, lambda path, lines: None
        self.addCleanup(setattr, report, "output", shown)
        fuzz.run(self.root, self.root / "build", [types.SimpleNamespace(path=program)], 1, logs, {}, outcomes)
        return outcomes.seen

    def test_a_target_that_found_nothing_says_how_much_it_tried(self):
        self.assertEqual(self.run_script("echo 'Done 12345 runs in 2 second(s)'"),
                         [(report.OK, "fuzz/target", "12,345 inputs in 2 s")])

    def test_a_bad_input_is_a_failure_that_names_it(self):
        seen = self.run_script("touch \"${0%/*}/logs/target.bad-crash-1\"; exit 77")
        self.assertEqual(seen[0][0], report.FAIL)
        self.assertIn("status 77", seen[0][2])
        self.assertIn("target.bad-crash-1", seen[0][2])

    def test_a_target_that_ends_well_without_having_run_is_a_failure(self):
        self.assertEqual(self.run_script("exit 0")[0][0], report.FAIL)

    def test_a_target_without_a_corpus_is_a_failure(self):
        self.assertIn("corpus/other", self.run_script("exit 0", "other")[0][2])

    def test_no_targets_are_a_failure(self):
        outcomes = Outcomes()
        fuzz.run(self.root, self.root, [], 1, self.root, {}, outcomes)
        self.assertEqual(outcomes.seen[0][0], report.FAIL)

import os
import pathlib
import tempfile
import unittest

import program
import report
import session

_BUILD = pathlib.Path(os.environ["ONECOPY_BUILD_DIR"])
_FIXTURE = _BUILD / "tests/runner/fixture/misbehaving"


class ProgramTest(unittest.TestCase):
    """Every way in which a program can fail is seen, on a real program of this build's Catch2."""

    def run_fixture(self, misbehaviour, time_limit=60, fixture=_FIXTURE):
        place = tempfile.TemporaryDirectory(prefix="onecopy-logs.")
        self.addCleanup(place.cleanup)
        self.cases = []
        self.shown = []
        shown, report.output = report.output, lambda path, lines: self.shown.extend(lines)
        try:
            outcomes = program.run(program.Task(fixture, "s/p", time_limit),
                                   dict(os.environ, MISBEHAVIOUR=misbehaviour), pathlib.Path(place.name),
                                   lambda *case: self.cases.append(case))
        finally:
            report.output = shown
        self.assertEqual(outcomes, [case[0] for case in self.cases])
        return outcomes

    def last(self):
        outcome, name, reason, detail = self.cases[-1]
        return outcome, name, reason, "\n".join(detail)

    def assert_program_failed(self, words):
        outcome, name, reason, _ = self.last()
        self.assertEqual((outcome, name), ("FAIL", "s/p: the program"))
        self.assertIn(words, reason)

    def test_what_passes_passes(self):
        self.assertEqual(self.run_fixture("nothing"), ["ok", "ok", "ok"])
        self.assertEqual(self.cases[0][1], "s/p: one & <one> are two")
        self.assertEqual(self.shown, [])

    def test_a_skipped_case_is_skipped_with_its_reason(self):
        self.assertEqual(self.run_fixture("skip"), ["ok", "skip", "ok"])
        self.assertEqual(self.cases[1][2], "no GPU")

    def test_a_failure_is_shown_with_place_values_and_output(self):
        self.assertEqual(self.run_fixture("fail"), ["ok", "ok", "FAIL"])
        detail = self.last()[3]
        for words in ("misbehaving.cc:", "in a section", "one == 2", "1 == 2", "the figures are 1"):
            self.assertIn(words, detail)
        self.assertIn("chatter of the program", self.shown)

    def test_what_cannot_be_started_is_a_failure(self):
        self.assertEqual(self.run_fixture("nothing", fixture=pathlib.Path("/dev/null")), ["FAIL"])
        self.assert_program_failed("cannot be started")

    def test_a_skip_does_not_hide_a_failure(self):
        self.assertEqual(self.run_fixture("skip and fail"), ["ok", "skip", "FAIL"])

    def test_an_exception_is_a_failure(self):
        self.assertEqual(self.run_fixture("throw"), ["ok", "ok", "FAIL"])
        self.assertIn("thrown on purpose", self.last()[3])

    def test_a_crash_is_a_failure(self):
        self.assertIn("FAIL", self.run_fixture("crash"))
        self.assert_program_failed("SIGSEGV")

    def test_a_kill_is_a_failure_and_says_where(self):
        self.assertEqual(self.run_fixture("kill"), ["ok", "ok", "FAIL"])
        self.assert_program_failed("ended by SIGKILL in “misbehaves”")

    def test_an_exit_in_the_middle_is_a_failure_even_with_status_0(self):
        self.assertEqual(self.run_fixture("exit"), ["ok", "ok", "FAIL"])
        self.assert_program_failed("status 0 in “misbehaves”")

    def test_a_bad_status_after_good_cases_is_a_failure(self):
        self.assertEqual(self.run_fixture("status"), ["ok", "ok", "ok", "FAIL"])
        self.assert_program_failed("status 3 although no case failed")

    def test_a_hanging_program_is_ended_at_its_time_limit(self):
        # Catch2 itself adds the place where it was ended.
        self.assertEqual(self.run_fixture("hang", time_limit=1), ["ok", "ok", "FAIL", "FAIL"])
        self.assertIn("SIGTERM", "".join(self.cases[2][3]))
        self.assert_program_failed("no end after 1 s")

    def test_a_program_that_ignores_sigterm_is_ended_too(self):
        self.assertEqual(self.run_fixture("stubborn", time_limit=1), ["ok", "ok", "FAIL"])
        self.assert_program_failed("no end after 1 s")

    def test_processes_left_running_are_a_failure_and_are_ended(self):
        self.assertEqual(self.run_fixture("leave"), ["ok", "ok", "ok", "FAIL"])
        self.assert_program_failed("left running: misbehaving (")
        pid = int(self.last()[2].rsplit("(", 1)[1].rstrip(")"))
        self.assertNotIn(pid, session.members(pid))
        self.assertFalse(os.path.exists(f"/proc/{pid}") and "State:\tZ" not in
                         pathlib.Path(f"/proc/{pid}/status").read_text())

    def test_a_sanitizers_report_is_a_failure_and_is_shown(self):
        self.assertEqual(self.run_fixture("report"), ["ok", "ok", "ok", "FAIL"])
        self.assert_program_failed("sanitizer reports")
        self.assertIn("ERROR: planted", self.last()[3])


if __name__ == "__main__":
    unittest.main()

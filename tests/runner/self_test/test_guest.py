import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import guest
import program
import report

_ROOT = pathlib.Path(__file__).resolve().parents[3]
_FIXTURE = pathlib.Path(os.environ["ONECOPY_BUILD_DIR"]) / "tests/runner/fixture/misbehaving"
_IN_GUEST = _ROOT / "tests/runner/in_guest.py"


class GuestTest(unittest.TestCase):
    """What programs in the guest do is reported as if they ran here, and a guest that ends leaves no program out.

    The part that runs in the guest runs here: it is the same program.
    """

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="onecopy-logs.")
        self.addCleanup(place.cleanup)
        self.logs = pathlib.Path(place.name)
        self.cases, self.shown = [], []
        self.enterContext(mock.patch.object(report, "output", lambda path, lines: self.shown.extend(lines)))

    def follow(self, command, tasks):
        return guest.follow(command, tasks, self.logs, lambda *case: self.cases.append(case))

    def run_fixture(self, misbehaviour, time_limit=60, shell="exec {}"):
        tasks = [program.Task(_FIXTURE, "s/one", time_limit), program.Task(_FIXTURE, "s/two", time_limit)]
        plan = guest.write_plan(tasks, {"ONECOPY_BIN_DIR": "/bin", "HOME": "/"}, "release", self.logs)
        words = shell.format(f"'{sys.executable}' -B '{_IN_GUEST}' '{plan}'")
        with mock.patch.dict(os.environ, MISBEHAVIOUR=misbehaviour):
            return self.follow(["bash", "-c", words], tasks)

    def test_what_passes_passes(self):
        self.assertEqual(self.run_fixture("nothing"), {"s/one": ["ok"] * 3, "s/two": ["ok"] * 3})
        self.assertEqual([case[1] for case in self.cases][2:4], ["s/one: misbehaves", "s/two: one & <one> are two"])
        self.assertEqual(self.shown, [])

    def test_a_failure_is_shown_with_values_and_output(self):
        self.assertEqual(self.run_fixture("fail")["s/two"], ["ok", "ok", "FAIL"])
        self.assertIn("1 == 2", "\n".join(self.cases[-1][3]))
        self.assertIn("chatter of the program", self.shown)

    def test_a_skip_and_a_crash_are_seen(self):
        self.run_fixture("skip")
        self.assertEqual(self.cases[1][:3], ("skip", "s/one: needs what is not here", "no GPU"))
        self.assertIn("FAIL", self.run_fixture("crash")["s/two"])

    def test_a_programs_time_limit_is_its_own(self):
        outcomes = self.run_fixture("stubborn", time_limit=1)
        self.assertEqual(outcomes, {"s/one": ["ok", "ok", "FAIL"], "s/two": ["ok", "ok", "FAIL"]})

    def test_a_guest_that_ends_too_soon_fails_what_had_not_finished(self):
        stops_after_one = "exec {} | while read -r line; do echo \"$line\"; [[ $line == *end*one* ]] && exit 125; done"
        self.assertEqual(self.run_fixture("nothing", shell=stops_after_one), {"s/one": ["ok"] * 3, "s/two": ["FAIL"]})
        self.assertEqual(self.cases[-1][:3], ("FAIL", "s/two: the program",
                                              "the guest ended with status 125 before this program did"))

    def test_a_guest_that_dies_at_once_shows_what_it_said(self):
        task = program.Task(_FIXTURE, "s/p", 60)
        outcomes = self.follow(["bash", "-c", "echo panic; echo '{}'; echo 7; echo oops >&2; exit 125"], [task])
        self.assertEqual(outcomes, {"s/p": ["FAIL"]})
        self.assertEqual(sorted(self.shown), ["7", "oops", "panic", "{}"])

    def test_only_our_variables_go_into_the_guest(self):
        env = {"ONECOPY_BIN_DIR": "/b", "UCX_TLS": "rc", "HOME": "/h", "SECRET_TOKEN": "x"}
        text = guest.write_plan([], env, "release", self.logs).read_text()
        self.assertIn("UCX_TLS", text)
        self.assertNotIn("SECRET_TOKEN", text)

    def test_what_is_missing_is_named(self):
        tools = self.logs / "tools"
        tools.mkdir()
        for name in ("bash", "dirname", "uname", "apt-get"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
        with mock.patch.dict(os.environ, PATH=str(tools)), self.assertRaises(guest.Cannot) as raised:
            guest.prepare(_ROOT)
        self.assertIn("qemu-system-x86_64", str(raised.exception))
        self.assertIn("deploy/bootstrap --for rdma", str(raised.exception))
        self.assertNotIn("apt-get", str(raised.exception).split(";")[0])


if __name__ == "__main__":
    unittest.main()

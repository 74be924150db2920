import shutil
import unittest

from checks import unit_file
from self_test.planted import Planted


@unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
class UnitFileTest(Planted):
    def change(self, before, after):
        unit = self.root / "deploy/onecopyd.service"
        text = unit.read_text()
        self.assertIn(before, text)
        unit.write_text(text.replace(before, after))

    def test_an_unknown_key_is_found(self):
        self.change("WatchdogSec=", "WatchdogSecs=")
        self.assertIn("Unknown key", "\n".join(unit_file.run(self.context())))

    def test_an_open_sandbox_is_found(self):
        self.change("CapabilityBoundingSet=\n", "")
        self.assertIn("exposure", "\n".join(unit_file.run(self.context())))

    def test_a_wrong_user_file_is_found(self):
        (self.root / "deploy/onecopy.sysusers.conf").write_text("user onecopy\n")
        self.assertNotEqual(unit_file.run(self.context()), [])

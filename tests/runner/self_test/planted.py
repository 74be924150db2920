"""A copy of the sources in which a test may plant what a check must find."""

import pathlib
import shutil
import tempfile
import unittest

from checks.context import Context

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Planted(unittest.TestCase):
    folder = ""  # what is copied: all, or what is in it

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="onecopy-planted.")
        self.addCleanup(place.cleanup)
        self.root = pathlib.Path(place.name)
        for name in Context(ROOT, None, None, {}).files():
            if not name.startswith(self.folder):
                continue
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)

    def context(self):
        return Context(self.root, None, None, {})

    def append(self, name, text):
        """Adds text to the end of a file, which may be new."""
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        with (self.root / name).open("a") as file:
            file.write(text)

    def assert_found(self, findings, name, words):
        """Exactly one finding is about that file, and it has these words."""
        about_it = [finding for finding in findings if finding.startswith(name + ":")]
        self.assertEqual(len(about_it), 1, findings)
        self.assertIn(words, about_it[0])

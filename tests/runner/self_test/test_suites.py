import unittest

import suites


class SelectTest(unittest.TestCase):
    def test_what_takes_minutes_and_a_network_runs_only_when_it_is_named(self):
        self.assertFalse({"python", "python-matrix", "packages", "kubernetes"} & set(suites.select({}, [], [], checks_too=True)))
        self.assertEqual(suites.select({}, ["packages"], [], checks_too=True), ["packages"])
        self.assertIn("packages", suites.select({}, [], ["packages"], checks_too=True))

    def test_a_name_of_no_suite_is_refused(self):
        with self.assertRaises(suites.UnknownSuite):
            suites.select({}, ["package"], [], checks_too=True)

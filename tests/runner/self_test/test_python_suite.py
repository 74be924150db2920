import pathlib
import tempfile
import unittest

import python_suite
import report

_RESULTS = """<testsuites><testsuite>
<testcase classname="tests.python.test_ray.TestTransport" name="test_on_a_gpu"><skipped message="no GPU"/></testcase>
<testcase classname="tests.python.test_calls" name="test_all[1]"/>
<testcase classname="test_calls" name="test_none"><failure>one
two</failure></testcase>
</testsuite></testsuites>"""


class PythonSuiteTest(unittest.TestCase):
    """Cases are named by their files, so that a file can be run once more."""

    def test_names_and_outcomes(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.xml"
            results.write_text(_RESULTS)
            seen = []
            self.assertTrue(python_suite._report("python", results, lambda *case: seen.append(case)))
        self.assertEqual(seen, [
            (report.SKIP, "python/test_ray: TestTransport.test_on_a_gpu", "no GPU", ()),
            (report.OK, "python/test_calls: test_all[1]", "", ()),
            (report.FAIL, "python/test_calls: test_none", "", ["one", "two"]),
        ])


if __name__ == "__main__":
    unittest.main()

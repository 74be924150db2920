from checks import python_layers
from self_test.planted import Planted

PACKAGE = "client/python/onecopy"


class PythonLayersTest(Planted):
    folder = f"{PACKAGE}/"

    def assert_refused(self, name, text, words):
        self.append(f"{PACKAGE}/{name}", text)
        found = [each for each in python_layers.run(self.context()) if "a circle" not in each]
        self.assert_found(found, f"{PACKAGE}/{name}", words)

    def test_the_package_keeps_to_them(self):
        self.assertEqual(python_layers.run(self.context()), [])

    def test_the_core_knows_no_format(self):
        self.assert_refused("core/memory/_pool.py", "from ...formats import _placing\n", "may not import onecopy.formats._placing")

    def test_types_and_functions_count(self):
        self.assert_refused("core/values/_errors.py", "def late():\n    from ..memory._pool import Pool\n", "may not import")
        self.assert_refused("core/values/_numbers.py", "if TYPE_CHECKING:\n    from ..memory._pool import Pool\n", "may not import")

    def test_imports_by_name_count(self):
        self.assert_refused("core/node/_names.py", 'importlib.import_module("onecopy.integrations._kept")\n', "may not import")

    def test_the_way_up_is_for_one_module(self):
        self.assert_refused("core/node/_names.py", 'importlib.import_module("onecopy.formats._array_files")\n', "may not import")

    def test_formats_know_no_integration(self):
        self.assert_refused("formats/parquet.py", "from onecopy.integrations import _ahead\n", "may not import")

    def test_what_import_onecopy_loads_is_the_core(self):
        self.assert_refused("__init__.py", "from .formats import _placing\n", "may not import")

    def test_doors_are_for_programs(self):
        self.assert_refused("integrations/_shards.py", "import onecopy.parquet\n", "is for programs")
        self.assert_refused("formats/orc.py", "from onecopy import connect\n", "is for programs")

    def test_a_folder_in_no_layer_is_found(self):
        self.assert_refused("other/a.py", "from ..core.values import _errors\n", "in no layer")

    def test_a_circle_inside_a_layer_is_found(self):
        self.append(f"{PACKAGE}/formats/_placing.py", "from . import _room\n")
        findings = python_layers.run(self.context())
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("onecopy.formats._placing -> onecopy.formats._room -> onecopy.formats._placing", findings[0])

    def test_a_circle_for_types_is_found(self):
        self.append(f"{PACKAGE}/core/values/_refusal.py", "if TYPE_CHECKING:\n    from ._errors import Error\n")
        self.assertEqual(len(python_layers.run(self.context())), 1)

"""What importing the package loads: the core alone, and each layer without the next one."""

import json
import pkgutil
import subprocess
import sys

import onecopy
import pytest
from users import present

MODULES = {"aio": None, "arrow": "pyarrow", "cupy": "cupy", "numba": "numba", "orc": None, "parquet": None, "ray": "ray",
           "rmm": "rmm", "torch": "torch", "vllm": "torch"}  # and what each needs


def in_a_fresh_process(program):
    done = subprocess.run([sys.executable, "-c", f"import json, sys\n{program}\nprint(json.dumps(sorted(sys.modules)))"],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def names_below(*packages):
    for package in packages:
        place = onecopy.__path__[0] + "/" + package.replace(".", "/")
        for each in pkgutil.walk_packages([place], f"onecopy.{package}."):
            yield each.name


def test_the_package_loads_its_core_alone():
    loaded = in_a_fresh_process("import onecopy\nonecopy.connect, onecopy.Node, onecopy.Loaded, onecopy.load, onecopy.doctor")
    ours = {name for name in loaded if name.startswith("onecopy.")}
    assert {name for name in ours if not name.startswith(("onecopy.core.", "onecopy._native"))} == {"onecopy.core"}
    assert not loaded & {"asyncio", "importlib.metadata", "numpy", "pyarrow", "torch"}


def test_the_core_works_without_the_other_layers():
    names = list(names_below("core"))
    assert len(names) > 20
    in_a_fresh_process("sys.modules['onecopy.formats'] = sys.modules['onecopy.integrations'] = None\n"
                       + "\n".join(f"import {name}" for name in [*names, "onecopy.aio"]))


def test_the_formats_work_without_the_integrations():
    names = list(names_below("formats"))
    assert len(names) > 15
    if not present("pyarrow"):
        names = [name for name in names if "arrow" not in name]
    loaded = in_a_fresh_process("sys.modules['onecopy.integrations'] = None\n" + "\n".join(f"import {name}" for name in names))
    assert not loaded & {"torch", "ray", "vllm", "cupy", "numba", "rmm"}


@pytest.mark.parametrize("name", MODULES)
def test_names_that_programs_use(name):
    """By an import of their own or without one, and by both of their names they are one module."""
    needs = MODULES[name]
    if needs is not None and not present(needs):
        assert not hasattr(onecopy, name)
        with pytest.raises(ImportError):
            __import__(f"onecopy.{name}")
        return
    program = f"import onecopy\nmodule = onecopy.{name}\nimport onecopy.{name}\nassert onecopy.{name} is module\n"
    if name != "aio":
        room = "formats" if name in ("arrow", "orc", "parquet") else "integrations"
        program += f"import onecopy.{room}.{name}\nassert sys.modules['onecopy.{name}'] is onecopy.{room}.{name}\n"
    in_a_fresh_process(program + "assert all(hasattr(module, each) for each in module.__all__)")


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="'onecopy' has no attribute 'nothing'"):
        _ = onecopy.nothing
    assert onecopy.__version__.count(".") == 2

"""The layouts of client/nixl/abi.h, by calling through every wheel of NIXL that the plug-in knows; and what it does with
one that it does not know. Without tests/python/fetch_nixl_wheels.py, of the installed wheel alone."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import onecopy
from fetch_nixl_wheels import PACKAGES, VERSIONS, find
from users import present

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = ("nixl_cu13", "1.5.1")

pytestmark = pytest.mark.skipif(not present("nixl"), reason="NIXL's wheel is not installed")


def site_packages():
    import nixl_cu13
    return pathlib.Path(nixl_cu13.__file__).parents[1]


def plugin_dir(packages, package, cache):
    return subprocess.run(
        [onecopy.program(), "nixl-plugin-dir", "--packages", packages, "--nixl", package, "--cache", cache],
        capture_output=True, text=True, check=False)


def call(package, packages, folder, pair):
    return subprocess.run([sys.executable, HERE / "nixl_calls.py", package, packages, pair.east.run_dir],
                          env=dict(os.environ, NIXL_PLUGIN_DIR=str(folder)), capture_output=True, text=True, timeout=300,
                          check=False)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("package", PACKAGES)
def test_everything_can_be_called(package, version, pair, tmp_path):
    packages = tmp_path
    if (package, version) == INSTALLED:
        packages = site_packages()
    elif (wheel := find(package, version)) is not None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages, [each for each in archive.namelist() if ".data/" not in each])
    else:
        pytest.skip("not fetched: tests/python/fetch_nixl_wheels.py")
    printed = plugin_dir(packages, package, tmp_path / "cache")
    assert printed.returncode == 0, printed.stderr
    done = call(package, packages, printed.stdout.strip(), pair)
    assert done.returncode == 0 and "called" in done.stdout, done.stdout + done.stderr


def test_the_versions_are_those_of_the_plugin():
    source = (HERE.parents[1] / "client/nixl/versions.cc").read_text()
    table = re.search(r"versions = \{(.*?)\};", source, re.DOTALL).group(1)
    assert tuple(re.findall(r'"([0-9.]+)"', table)) == VERSIONS


@pytest.fixture
def unknown(tmp_path):
    """The installed wheel, as another version."""
    place = tmp_path / "site"
    for name in ("nixl_cu13", ".nixl_cu13.mesonpy.libs", "nixl_cu13.libs"):
        shutil.copytree(site_packages() / name, place / name)
    shutil.copytree(site_packages() / "nixl_cu13-1.5.1.dist-info", place / "nixl_cu13-9.0.0.dist-info")
    return place


def test_a_nixl_of_another_version_is_refused(unknown, pair, tmp_path):
    printed = plugin_dir(unknown, "nixl_cu13", tmp_path / "cache")
    assert printed.returncode == 7
    assert "NIXL_UNKNOWN" in printed.stderr and "9.0.0" in printed.stderr
    # Whoever made a folder by hand: the plug-in itself says so, and NIXL goes on without it.
    known = plugin_dir(site_packages(), "nixl_cu13", tmp_path / "cache")
    done = call("nixl_cu13", unknown, known.stdout.strip(), pair)
    assert done.returncode == 1, done.stderr
    assert "this NIXL cannot be served" in done.stderr and "9.0.0" in done.stderr
    assert "unsupported backend 'ONECOPY'" in done.stderr


def test_without_nixl_the_program_says_what_to_do(tmp_path):
    printed = plugin_dir(tmp_path, "nixl_cu13", tmp_path / "cache")
    assert printed.returncode == 7
    assert "NIXL_MISSING" in printed.stderr and "pip install nixl-cu13" in printed.stderr

"""What docs/integrations says to type, as far as it runs without a GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import onecopy
from users import present

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "integrations"

pytestmark = pytest.mark.skipif(not present("nixl"), reason="NIXL's wheel is not installed")


def blocks(name):
    """The indented blocks of a page."""
    text = (DOCS / name).read_text()
    return [re.sub(r"^    ", "", each, flags=re.MULTILINE).strip("\n")
            for each in re.findall(r"(?:^(?:    .*|)\n)+", text, re.MULTILINE) if each.strip()]


@pytest.fixture(scope="module")
def environment(pair, tmp_path_factory):
    """As a user has it who typed the page's first line, with this program on PATH."""
    line, = [each for each in blocks("nixl.md") if each.startswith("export")]
    env = dict(os.environ, ONECOPY_RUN_DIR=str(pair.east.run_dir), XDG_CACHE_HOME=str(tmp_path_factory.mktemp("cache")),
               PATH=f"{pathlib.Path(onecopy.program()).parent}:{os.environ['PATH']}")
    env["NIXL_PLUGIN_DIR"] = subprocess.run(
        ["bash", "-ec", line + "; echo $NIXL_PLUGIN_DIR"], env=env, capture_output=True, text=True, check=True).stdout.strip()
    return env


def test_the_example_runs(environment):
    code, = [each for each in blocks("nixl.md") if each.startswith("from nixl")]
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr


def test_every_page_names_the_folder_as_this_one_does(environment):
    for page in {*DOCS.glob("*.md")} - {DOCS / "ray.md", DOCS / "pools.md"}:  # which do without NIXL
        assert "export NIXL_PLUGIN_DIR=$(onecopy nixl-plugin-dir)" in page.read_text(), page


def test_vllms_configuration_is_json():
    command, = [each for each in blocks("vllm.md") if "--kv-transfer-config" in each]
    config = json.loads(re.search(r"--kv-transfer-config '(.*)'", command).group(1))
    assert config["kv_connector_extra_config"]["backends"] == ["ONECOPY"]


@pytest.mark.skipif(not present("torch"), reason="torch is not installed")
def test_torchs_transport(environment):
    code = next(each for each in blocks("torch.md") if each.startswith("import") and 'plugin="ONECOPY"' in each)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr

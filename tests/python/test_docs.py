"""What docs/python.md and the examples show is run."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

import onecopy
from users import present

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "client" / "examples" / "python"


def run(pair, *command, **options):
    env = dict(os.environ, ONECOPY_RUN_DIR=str(pair.east.run_dir))
    return subprocess.run([sys.executable, *map(str, command)], env=env, capture_output=True, text=True, check=False,
                          timeout=120, **options)


def test_the_page(pair, west, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    done = run(pair, "-c", "\n".join(blocks), cwd=tmp_path)  # on two nodes that have nothing
    assert done.returncode == 0, done.stderr
    assert "tcp-direct, 3 copies" in done.stdout
    assert (numpy.asarray(west.map("weights", dtype="float32"))[-10:] == 1.5).all()
    west.delete("weights", force=True)


def test_the_checksum_that_anybody_can_compute(east, west):
    """docs/decisions/hash-tree.md, by a package that has nothing to do with ours."""
    page = (ROOT / "docs" / "decisions" / "hash-tree.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(compile(block, "hash-tree.md", "exec"), names)
    for length in (1, 2**20, 3 * 2**20 + 7):
        payload = numpy.random.default_rng(length).integers(0, 256, length, "uint8")
        target = west.empty(length, "uint8")
        done = east.transfer(payload, target, checksum=True)
        assert done.receipt.checksum.value == names["tree"](payload.tobytes())
        assert west.sum(target.buffer).tree == done.receipt.checksum.value


# What a notebook does with its cells: the value of a cell's last line is shown, as HTML where it has that.
NOTEBOOK = """
import ast, json, sys
names = {}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    lines = ast.parse("".join(cell["source"])).body
    last = lines.pop() if isinstance(lines[-1], ast.Expr) else None
    exec(compile(ast.Module(lines, []), cell["id"], "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
        print("shown", json.dumps([cell["id"], getattr(shown, "_repr_html_", lambda: repr(shown))()]))
"""


def test_the_notebook(pair):
    """Cell by cell, and what it shows: receipts are tables with a row for each copy."""
    done = run(pair, "-c", NOTEBOOK, EXAMPLES / "tour.ipynb")
    assert done.returncode == 0, done.stderr
    assert "POLICY_UNMET" in done.stdout
    shown = dict(json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("shown "))
    tables = {name: [[re.sub("<[^>]*>", "", cell) for cell in row.split("</td>")[:-1]] for row in html.split("</tr>")]
              for name, html in shown.items()}
    receipts = {name: rows for name, rows in tables.items() for row in rows if row[:1] == ["path"] and ["took"] in [
        each[:1] for each in rows]}
    copies = {}
    for name, rows in receipts.items():
        path, = (row[1] for row in rows if row[:1] == ["path"])
        steps = [row for row in rows if len(row) == 5 and row[0].isdigit()]
        assert path.endswith(f", {len(steps)} {'copy' if len(steps) == 1 else 'copies'}"), shown[name]
        copies[path] = copies.get(path, 0) + 1
        if path.startswith("tcp"):
            assert {row[4] for row in steps} == {"east", "west"}
    assert copies == {"local, 1 copy": 1, "peer-bounce, 2 copies": 1, "tcp-direct, 3 copies": 1}
    assert not [each for each in pair.west.cli("buffer", "ls") if each["name"].startswith("tour-")]


def test_send_array(pair, west):
    west.create("docs-array", 4 << 20)
    done = run(pair, EXAMPLES / "send_array.py", "west:docs-array")
    assert done.returncode == 0, done.stderr
    assert "equal at both ends" in done.stdout
    missing = run(pair, EXAMPLES / "send_array.py", "west:docs-nothing")
    assert missing.returncode == 1
    assert missing.stderr.startswith("BUFFER_NOT_FOUND")
    assert run(pair, EXAMPLES / "send_array.py").returncode == 1


def test_send_batch(pair):
    pytest.importorskip("pyarrow")
    env = dict(os.environ, ONECOPY_RUN_DIR=str(pair.west.run_dir))
    receiver = subprocess.Popen([sys.executable, EXAMPLES / "send_batch.py", "receive"], env=env, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sent = run(pair, EXAMPLES / "send_batch.py", "send", receiver.stdout.readline().strip())
    out, _ = receiver.communicate("\n", timeout=60)
    assert sent.returncode == 0, sent.stderr
    assert "'name': [None, 'name 1'" in out


def test_the_pipeline(pair, tmp_path):
    """Each step has its receipt, and nothing is left behind."""
    file = tmp_path / "weights.bin"
    file.write_bytes(bytes(numpy.arange(1 << 20, dtype="uint32") % 251))
    for source, size in ((file, 4 << 20), ("-", 64 << 20)):
        done = run(pair, EXAMPLES / "pipeline.py", source, "west")
        assert done.returncode == 0, done.stderr
        assert f"{size} bytes are what they were" in done.stdout
        paths = re.findall(r"path +(\S+), (\d) cop", done.stdout)
        assert [each[0] for each in paths] == ["peer-bounce", "local", "tcp-direct", "tcp-direct"]
    for node in (pair.east, pair.west):
        assert not [each for each in node.cli("buffer", "ls") if each["name"].startswith("pipeline")]
    for arguments, says in ((("/nothing", "west"), "/nothing"), ((file, "nowhere"), "nowhere"), ((), "usage"),
                            ((file, "west", "tape", "host", "host"), "tape")):
        failed = run(pair, EXAMPLES / "pipeline.py", *arguments)
        assert failed.returncode == 1
        assert says in failed.stderr
        assert "Traceback" not in failed.stderr


def two_ends(pair, script, *, send, env=()):
    """Runs `script receive` on west, and `script send WHAT IT PRINTED` here; their output. `send`: both words."""
    west = dict(os.environ, ONECOPY_RUN_DIR=str(pair.west.run_dir), **dict(env))
    receiver = subprocess.Popen([sys.executable, EXAMPLES / script, send[0]], env=west, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = receiver.stdout.readline()
    while line and not line.startswith(send[2]):  # other packages print there, too
        line = receiver.stdout.readline()
    east = dict(os.environ, ONECOPY_RUN_DIR=str(pair.east.run_dir), **dict(env))
    sent = subprocess.run([sys.executable, EXAMPLES / script, send[1], line.strip()], env=east, capture_output=True,
                          text=True, check=False, timeout=120)
    out, _ = receiver.communicate("\n", timeout=60)
    assert sent.returncode == 0, sent.stderr
    assert receiver.returncode == 0
    return out, sent.stdout


def test_send_a_state_dict(pair):
    pytest.importorskip("torch")
    got, sent = two_ends(pair, "send_state_dict.py", send=("receive", "send", "west"))
    assert "and 3 more" in sent
    assert sent.splitlines()[-1].rpartition(": ")[2] == got.splitlines()[-1].rpartition(": ")[2]


@pytest.mark.skipif(not present("torch"), reason="torch is not installed")
def test_a_mem_pool(pair, west):
    import torch

    west.create("docs-weights", 8 << 20)
    done = run(pair, EXAMPLES / "mem_pool.py", "west:docs-weights")
    if torch.cuda.is_available():
        assert done.returncode == 0, done.stderr
        assert "4 tensors, 0 registrations" in done.stdout
    else:
        assert done.returncode == 1
        assert done.stderr.startswith(("NO_DRIVER", "NO_GPU"))


@pytest.mark.skipif(not present("nixl"), reason="NIXL's wheel is not installed")
def test_the_kv_cache(pair, tmp_path):
    folder = subprocess.run([onecopy.program(), "nixl-plugin-dir", "--cache", tmp_path], capture_output=True, text=True,
                            check=True).stdout.strip()
    got, sent = two_ends(pair, "kv_cache.py", send=("decode", "prefill", "{"), env={"NIXL_PLUGIN_DIR": folder}.items())
    assert "4 blocks of 4 layers have arrived" in got
    assert sent.endswith("DONE\n")


@pytest.mark.skipif(not (present("ray") and present("torch")), reason="ray and torch are not installed")
def test_rays_weights(pair):
    done = run(pair, EXAMPLES / "ray_weights.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 tensors: east:") == 2
    assert "process -> slab" in done.stdout


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not (present("ray") and present("torch")), reason="ray and torch are not installed")
def test_the_page_of_ray(pair, tmp_path):
    script = tmp_path / "page.py"  # of a file, as Ray wants it
    script.write_text("\n".join(blocks_of("integrations/ray.md")))
    done = run(pair, script)
    assert done.returncode == 0, done.stderr
    assert "process -> slab" in done.stdout


@pytest.mark.skipif(not present("torch"), reason="torch is not installed")
def test_the_page_of_torch(pair):
    if not present("torch.distributed._transport"):
        pytest.skip("this torch has no transports")
    first, *_ = blocks_of("integrations/torch.md")
    done = run(pair, "-c", first)
    assert done.returncode == 0, done.stderr
    assert "peer-bounce" in done.stdout


def test_types():
    """The examples, and the package as it is installed, hold what their types say."""
    package = pathlib.Path(onecopy.__file__).parent
    assert (package / "py.typed").exists()
    for what in ([EXAMPLES / "send_array.py"], [EXAMPLES / "pipeline.py"], [EXAMPLES / "mem_pool.py"],
                 ["-p", "onecopy"]):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", os.devnull, *what],
            capture_output=True, text=True, check=False, cwd=EXAMPLES)
        assert done.returncode == 0, done.stdout

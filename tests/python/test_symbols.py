"""No symbol of gRPC, protobuf or absl binds from the wheel's libraries to others', or the other way."""

import importlib.metadata
import os
import pathlib
import re
import struct
import subprocess
import sys

import pytest
import users

import onecopy

PACKAGE = pathlib.Path(onecopy.__file__).parent
GRAFTED = PACKAGE.parent / "onecopy.libs"
TOOLS = pathlib.Path(__file__).parents[2] / "client" / "python" / "tools"
sys.path.insert(0, str(TOOLS))
import weaken  # noqa: E402

BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `([^']+)'")
# In mangled names, and as C functions.
THEIRS = re.compile(r"4absl|6google8protobuf|4grpc|9grpc_core|^grpc_|^gpr_|^upb_|^absl")


def is_ours(path):
    return path.startswith((f"{PACKAGE}/", f"{GRAFTED}/"))


def bindings(pair, folder, parts):
    """What the loader bound in a process, as (from, to, symbol)."""
    env = dict(os.environ, ONECOPY_RUN_DIR=str(pair.east.run_dir), LD_DEBUG="bindings", LD_BIND_NOW="1",
               LD_DEBUG_OUTPUT=str(folder / "bindings"))
    done = subprocess.run([sys.executable, "-c", "\n".join(parts)], env=env, capture_output=True, text=True, check=False,
                          timeout=240)
    assert done.returncode == 0, done.stderr
    for path in folder.glob("bindings.*"):
        with path.open(errors="replace") as lines:
            for line in lines:
                found = BINDING.search(line)
                if found is not None:
                    yield found.groups()


@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("name", ["nixl-ucx", "grpcio", "pyarrow"])
def test_nothing_of_grpc_binds_across(pair, folder, name, ours_first):
    if not users.present(name):
        pytest.skip(f"{name} is not installed")
    parts = [users.OURS, users.USERS[name]] if ours_first else [users.USERS[name], users.OURS]
    inside, across = 0, []
    for source, target, symbol in bindings(pair, folder, parts):
        if not THEIRS.search(symbol):
            continue
        if is_ours(source) and is_ours(target):
            inside += 1
        elif is_ours(source) or is_ours(target):
            across.append((source, target, symbol))
    assert inside > 1000  # the names are recognised
    assert across == []


def test_the_libraries_have_names_of_their_own():
    names = [path.name for path in GRAFTED.iterdir()]
    assert any(name.startswith("libgrpc-") for name in names)
    assert all(re.search(r"-[0-9a-f]{8}\.so", name) for name in names), names


def test_no_library_has_a_unique_symbol():
    files = [*GRAFTED.iterdir(), PACKAGE / "_native.abi3.so", PACKAGE / "bin" / "onecopy"]
    assert len(files) > 20
    assert {path.name: weaken.count_unique(path) for path in files if weaken.count_unique(path)} == {}


def test_the_wheel_goes_where_glibc_is_2_34():
    tags = importlib.metadata.distribution("onecopy").read_text("WHEEL")
    assert "Tag: cp311-abi3-manylinux_2_34_x86_64" in tags.splitlines()


def test_the_module_shows_its_entry_and_torchs_allocator_alone():
    listed = subprocess.run(["nm", "-D", "--defined-only", PACKAGE / "_native.abi3.so"], capture_output=True, text=True,
                            check=True).stdout
    assert sorted(line.split()[-1] for line in listed.splitlines()) == [
        "PyInit__native", "onecopy_torch_free", "onecopy_torch_malloc", "onecopy_torch_malloc_or_throw",
        "onecopy_torch_record_stream"]


def symbol_table(binds):
    """An ELF file with nothing but a table of dynamic symbols that bind so."""
    symbols = b"".join(struct.pack("<IBBHQQ", 0, bind << 4 | 1, 0, 1, 0, 8) for bind in binds)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, 64 + len(symbols), 0, 64, 0, 0, 64,
                         1, 0)
    section = struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, 64, len(symbols), 0, 0, 8, 24)
    return header + symbols + section


def test_weakening_changes_unique_symbols_alone(folder):
    path = folder / "lib.so"
    path.write_bytes(symbol_table([0, 1, 2, 10, 10]))
    assert weaken.count_unique(path) == 2
    assert weaken.weaken(path) == 2
    assert path.read_bytes() == symbol_table([0, 1, 2, 2, 2])
    assert weaken.weaken(path) == 0


def test_weakening_refuses_what_is_no_library(folder):
    path = folder / "text"
    path.write_text("no library")
    with pytest.raises(weaken.NotElf):
        weaken.weaken(path)

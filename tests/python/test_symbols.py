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
import elf  # noqa: E402
import rename  # noqa: E402
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
@pytest.mark.parametrize("name", ["nixl-ucx", "nixl-for-all", "grpc-for-all", "grpcio", "pyarrow"])
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


def test_nothing_that_was_grafted_has_the_name_that_others_know():
    libraries = [path.read_bytes() for path in GRAFTED.iterdir()]
    names = rename.owned(libraries)
    assert len(names) > 10_000
    assert [name for name in names if name.startswith((b"_Z", b"grpc_", b"gpr_", b"upb_", b"_upb_"))] == []


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
    with pytest.raises(elf.NotElf):
        weaken.weaken(path)


@pytest.mark.parametrize(("name", "new"), [
    (b"_ZN4grpc6StatusC1Ev", b"`9N4grpc6StatusC1Ev"),
    (b"grpc_init", b"hQpc_init"),
    (b"_upb_Map_New", b"_vOb_Map_New"),
    (b"upb_Map_New", b"vOb_Map_New"),
    (b"a1", b"`R"),
])
def test_a_new_name_has_the_same_length_and_hash(name, new):
    assert rename.renamed(name) == new
    assert len(new) == len(name)
    assert rename.gnu_hash(new) == rename.gnu_hash(name)


def test_a_name_without_another_one_is_refused():
    for name in (b"a", b"", b"_a"):
        with pytest.raises(rename.Impossible):
            rename.renamed(name)


def library(names, symbols):
    """An ELF file of symbols: (where its name begins in `names`, whether it is defined, its version)."""
    table = b"".join(struct.pack("<IBBHQQ", at, 1 << 4 | 1, 0, int(defined), 0, 8) for at, defined, _ in symbols)
    versions = b"".join(struct.pack("<H", version) for _, _, version in symbols)
    parts, places, at = [table, names, versions], [], 64
    for part in parts:
        places.append((at, len(part)))
        at += len(part)
    kinds = [(11, 1), (3, 0), (0x6FFFFFFF, 0)]
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 0)
    sections = b"".join(struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, begin, size, link, 0, 0, 0)
                        for (kind, link), (begin, size) in zip(kinds, places, strict=True))
    return bytearray(header + b"".join(parts) + sections)


def names_of(image):
    return [elf.name_of(image, symbol) for symbol in elf.symbols(image)]


def test_what_a_library_defines_is_renamed_wherever_it_is_used(folder):
    grafted, user = folder / "grafted.so", folder / "user.so"
    names = b"\0_upb_New\0ours\0theirs\0fixed\0"
    #        defined, and the end of another · defined · used, with a version · defined, with a version
    grafted.write_bytes(library(names, [(1, True, 1), (2, True, 1), (10, True, 1), (15, False, 2), (22, True, 3)]))
    user.write_bytes(library(b"\0ours\0theirs\0other\0", [(1, False, 1), (6, False, 2), (13, True, 1)]))
    assert rename.rename_all([grafted], [user]) == 3
    assert names_of(grafted.read_bytes()) == [b"_vOb_New", b"vOb_New", b"pTrs", b"theirs", b"fixed"]
    assert names_of(user.read_bytes()) == [b"pTrs", b"theirs", b"other"]


def test_a_name_that_is_the_end_of_one_that_stays_is_refused(folder):
    path = folder / "lib.so"
    path.write_bytes(library(b"\0keep_ours\0", [(1, False, 2), (6, True, 1)]))
    with pytest.raises(rename.Impossible, match="keep_"):
        rename.rename_all([path], [])

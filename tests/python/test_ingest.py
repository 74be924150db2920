"""bench/ingest: that it finds wrong bytes, names who is not there, and fails below its floors."""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy
import pytest
import safetensors

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "ingest"
if not FOLDER.exists():
    pytest.skip("the bench's sources are not here", allow_module_level=True)
sys.path.insert(0, str(FOLDER))

import checksums  # noqa: E402
import comparison  # noqa: E402
import loaders  # noqa: E402
import models  # noqa: E402
import page_cache  # noqa: E402
import rows  # noqa: E402
import samples  # noqa: E402
import tables  # noqa: E402

GB = 10 ** 9


@pytest.fixture
def disk():
    """A folder that is no tmpfs, so that its files can be cold."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="onecopy-py.") as path:
        stat = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True)
        kind = stat.stdout.strip()
        if kind in ("tmpfs", "ramfs", "overlayfs"):
            pytest.skip(f"/var/tmp is on {kind}")
        yield pathlib.Path(path)


# ---- what is compared, without a load


def said(seconds, wrong=None):
    return {"seconds": seconds, "cpu_seconds": 0.5, "bytes": GB, "cached_afterwards": 0.0, "wrong": wrong}


def compared(monkeypatch, floor, **by):
    """The rows of what each loader is said to do: a list of samples, a Failure before any, or (a Failure, samples)."""
    by = {name.replace("_", "-"): each for name, each in by.items()}

    def choose(place, loader, facts, condition, progress):
        outcome = by[loader.name]
        if isinstance(outcome, samples.Failure):
            raise outcome
        trial = outcome[-1] if isinstance(outcome, list) else said(1)
        return samples.Chosen(loader, loaders.Setting("best"), trial, {})

    def rounds(place, chosen, facts, condition, count, stop):
        late = {name: by[name] for name in chosen if isinstance(by[name], tuple)}
        return ({name: late[name][1] if name in late else by[name] for name in chosen},
                {name: each[0] for name, each in late.items()})

    monkeypatch.setattr(samples, "choose", choose)
    monkeypatch.setattr(samples, "rounds", rounds)
    competitors = tuple(each for each in loaders.COMPETITORS if each.name in by)
    asked = comparison.Asked(None, "ingest cold, one file", loaders.COLD, loaders.ONECOPY, competitors, {}, 3, floor,
                             True, lambda text: None, lambda: None)
    return {each["work"]: each for each in comparison.measure(asked, "trial", "facts", GB)}


def test_the_best_competitor_decides(monkeypatch):
    found = compared(monkeypatch, 1.2, onecopy=[said(1.0)] * 3, safetensors=[said(4.0)] * 3, kvikio=[said(1.5)] * 3)
    verdict = found["ingest cold, one file"]
    assert verdict["status"] == rows.OK
    assert verdict["ceiling"] == "kvikio (best)"
    assert rows.ratio(verdict) == pytest.approx(1.5)
    assert verdict["floor"] == 1.2
    assert verdict["details"]["seconds"] == 1.0
    assert verdict["details"]["ceiling_seconds"] == 1.5
    assert rows.ratio(found["ingest cold, one file, against safetensors"]) == pytest.approx(4)
    assert found["cpu ingest cold, one file"]["values"] == [0.5] * 3
    assert found["cpu ingest cold, one file"]["unit"] == "s/GB"


def test_a_missed_floor_fails(monkeypatch):
    found = compared(monkeypatch, 1.2, onecopy=[said(1.0)] * 3, safetensors=[said(4.0)] * 3, kvikio=[said(1.1)] * 3)
    verdict = found["ingest cold, one file"]
    assert (verdict["status"], verdict["reason"]) == (rows.FAILED, "BELOW_FLOOR")
    assert "1.1 of kvikio (best), and 1.2 is the least" in verdict["detail"]


def test_ratios_are_of_what_was_measured_side_by_side(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0), said(10.0), said(1.0)],
                     safetensors=[said(1.1), said(11.0), said(1.1)])
    assert rows.ratio(found["ingest cold, one file"]) == pytest.approx(1.1)


def test_who_is_not_there_or_cannot_is_named(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0)] * 3, safetensors=[said(2.0)] * 3,
                     kvikio=samples.Failure("FILE_NOT_FOUND", "no module is named kvikio"),
                     instanttensor=samples.Failure("TOOL_FAILED", "ValueError: GPUs only"))
    for name, reason, what in (("kvikio", "FILE_NOT_FOUND", "kvikio-cu13 is not installed"),
                               ("instanttensor", "TOOL_FAILED", "it cannot here: ValueError: GPUs only")):
        row = found[f"ingest cold, one file, against {name}"]
        assert (row["status"], row["reason"]) == (rows.WAIVED, reason)
        assert row["detail"].startswith("not run: ")
        assert what in row["detail"]
        assert row["values"] == []
    assert found["ingest cold, one file"]["status"] == rows.OK


def test_nobody_to_compare_with_is_no_success(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0)] * 3, kvikio=samples.Failure("FILE_NOT_FOUND", "none"))
    verdict = found["ingest cold, one file"]
    assert (verdict["status"], verdict["reason"]) == (rows.WAIVED, "NOT_APPLICABLE")


def test_a_competitor_with_wrong_bytes_fails_and_is_no_ceiling(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0)] * 3, safetensors=[said(2.0)] * 3,
                     kvikio=[said(0.1), said(0.1, "w has other bytes than the file"), said(0.1)])
    row = found["ingest cold, one file, against kvikio"]
    assert (row["status"], row["reason"], row["verified"]) == (rows.FAILED, "PAYLOAD_WRONG", False)
    assert "w has other bytes" in row["detail"]
    assert found["ingest cold, one file"]["ceiling"] == "safetensors (best)"


def test_one_that_fails_after_its_trial_fails(monkeypatch):
    late = (samples.Failure("TOOL_FAILED", "it ended by SIGSEGV"), [said(1.0)])
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0)] * 3, safetensors=[said(2.0)] * 3, kvikio=late)
    row = found["ingest cold, one file, against kvikio"]
    assert (row["status"], row["reason"]) == (rows.FAILED, "TOOL_FAILED")
    assert "SIGSEGV" in row["detail"]
    found = compared(monkeypatch, 1.0, onecopy=late, safetensors=[said(2.0)] * 3)
    assert [each["status"] for each in found.values()] == [rows.FAILED]


def test_ours_with_wrong_bytes_fails(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=[said(1.0), said(1.0, "w has other bytes"), said(1.0)],
                     safetensors=[said(2.0)] * 3)
    row, = found.values()
    assert (row["status"], row["reason"], row["detail"]) == (rows.FAILED, "PAYLOAD_WRONG", "w has other bytes")


def test_a_page_cache_that_cannot_be_emptied_is_no_failure_of_ours(monkeypatch):
    found = compared(monkeypatch, 1.0, onecopy=samples.Failure("NOT_APPLICABLE", "tmpfs"), safetensors=[said(2.0)] * 3)
    row, = found.values()
    assert (row["status"], row["detail"]) == (rows.WAIVED, "tmpfs")


# ---- parts


def test_any_wrong_byte_changes_the_sum():
    data = numpy.random.default_rng(1).bytes(1000 + 5)
    whole = checksums.of_bytes(data)
    for at in (0, 1, 7, 8, 500, 999, 1000, 1004):
        other = bytearray(data)
        other[at] ^= 0x10
        assert checksums.of_bytes(other) != whole, at
    assert checksums.of_bytes(data[8:16] + data[:8] + data[16:]) != whole
    assert checksums.of_bytes(data[:-1]) != whole
    large = numpy.random.default_rng(2).bytes((8 << 20) + 24)  # more than is summed at once
    other = bytearray(large)
    other[-1] ^= 1
    assert checksums.of_bytes(other) != checksums.of_bytes(large)


def test_sums_of_tensors_are_those_of_bytes():
    torch = pytest.importorskip("torch")
    data = numpy.random.default_rng(1).bytes(4098)
    tensor = torch.frombuffer(bytearray(data), dtype=torch.bfloat16)
    assert checksums.of_tensor(tensor) == checksums.of_bytes(data)
    assert checksums.of_tensor(tensor[1:]) == checksums.of_bytes(data[2:])


def test_the_page_cache_is_looked_at(disk):
    path = disk / "file"
    path.write_bytes(os.urandom(3 << 20))
    page_cache.fill([path])
    assert page_cache.share(path) == 1
    page_cache.empty([path])
    assert page_cache.share(path) == 0
    with path.open("rb") as file:
        os.pread(file.fileno(), 4096, 0)
    assert 0 < page_cache.share(path) <= 1


def test_what_cannot_be_cold_is_said_so():
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="onecopy-ingest.") as file:
        file.write(b"x" * 8192)
        file.flush()
        with pytest.raises(page_cache.NotAsWanted, match="stays in the page cache"):
            page_cache.empty([pathlib.Path(file.name)])


@pytest.mark.parametrize("shards", [1, 3])
def test_models_are_what_safetensors_reads(tmp_path, shards):
    model = models.write(tmp_path / "model", 1 << 20, shards)
    assert len(model.files) == shards
    assert 0.99 * (1 << 20) < model.bytes <= 1 << 20
    found = {}
    for path in model.files:
        with safetensors.safe_open(path, framework="np") as file:
            for name in file.keys():
                found[name] = (file.get_slice(name).get_dtype(), file.get_slice(name).get_shape())
    assert found == {name: (dtype, list(shape)) for name, (dtype, shape, *_) in model.tensors.items()}
    assert {"BF16", "F32", "I64", "U8"} == {dtype for dtype, _ in found.values()}
    again = models.Model.read_facts(model.write_facts())
    assert (again.bytes, again.files, again.entry) == (model.bytes, model.files, model.entry)
    assert model.entry.endswith("model.safetensors" if shards == 1 else "model.safetensors.index.json")
    for dtype, shape, checksum, number, offset in model.tensors.values():
        with open(model.files[number], "rb") as file:
            file.seek(offset)
            size = models.ITEM_BYTES[dtype] * int(numpy.prod(shape))
            assert checksums.of_bytes(file.read(size)) == checksum


def test_the_cases_of_tables(tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    assert len(set(tables.ALL)) == 48
    assert set(tables.SOME) < set(tables.ALL)
    for case in (tables.Case("integers", True, 32, "snappy"), tables.Case("nested lists", False, 1, "none"),
                 tables.Case("strings", True, 1, "none"), tables.Case("decimals", False, 32, "snappy")):
        made = tables.write(tmp_path / case.name.replace(" ", "-"), case, 1 << 20)
        table = pyarrow.read_table(made.files[0])
        assert table.num_rows == made.rows
        column = table.column(0).to_pylist()
        if case.type != "nested lists":
            assert sum(each != after for each, after in itertools.pairwise(column)) <= made.rows / case.run
            assert len(set(column)) <= 1000 if case.few else len(set(column)) == -(-made.rows // case.run)
        assert pyarrow.read_metadata(made.files[0]).row_group(0).column(0).compression == (
            "SNAPPY" if case.codec == "snappy" else "UNCOMPRESSED")


# ---- the program


ONE = ("--works", "safetensors", "--conditions", "warm", "--layouts", "one file", "--loaders", "safetensors")


def program(daemon, folder, *words):
    return [sys.executable, str(FOLDER / "run"), "--run-dir", str(daemon.run_dir), "--daemon-pid",
            str(daemon.process.pid), "--device", "cpu", "--sizes", "1MiB", "--samples", "2", "--folder", str(folder),
            "--parquet-size", "1MiB", "--json", str(folder / "rows.json"), *words]


def run(daemon, folder, *words):
    pytest.importorskip("torch")
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(program(daemon, folder, *words), capture_output=True, text=True, check=False, env=env)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    with (folder / "rows.json").open() as file:
        return done, {each["work"]: each for each in json.load(file)}


def test_everybody_has_a_row(pair, disk):
    done, found = run(pair.east, disk, "--works", "safetensors")
    assert done.returncode == 0, done.stdout + done.stderr
    for condition in ("cold", "warm"):
        for layout in ("one file", "shards"):
            work = f"ingest {condition}, {layout}"
            verdict = found[work]
            assert verdict["status"] == "OK", verdict
            assert verdict["verified"] is True
            assert verdict["samples"] == len(verdict["values"]) == len(verdict["ceiling_values"]) == 2
            assert verdict["path"] == "storage-bounce"
            assert verdict["floor"] is None  # of so few bytes
            assert verdict["ratio"] > 0
            assert verdict["details"]["cpu_seconds_per_gb"] > 0
            assert found[f"cpu {work}"]["unit"] == "s/GB"
            assert found[f"{work}, against safetensors"]["status"] == "OK"
            for loader in loaders.COMPETITORS:
                row = found[f"{work}, against {loader.name}"]
                assert row["status"] == "OK" or row["detail"].startswith("not run: "), row
                assert row["status"] in ("OK", "WAIVED"), row
    assert not list(disk.glob("onecopy-ingest.*"))
    assert "against safetensors" in done.stdout


@pytest.mark.parametrize("name", ["onecopy", "safetensors"])
def test_a_wrong_byte_is_found(pair, disk, name):
    done, found = run(pair.east, disk, *ONE, "--spoil", name, "model.norm.weight")
    assert done.returncode == 1
    row = found["ingest warm, one file" + ("" if name == "onecopy" else f", against {name}")]
    assert (row["status"], row["reason"], row["verified"]) == ("FAILED", "PAYLOAD_WRONG", False)
    assert "model.norm.weight has other bytes than the file" in row["detail"]
    assert "PAYLOAD_WRONG" in done.stdout


def test_who_was_left_out_is_named(pair, disk):
    _, found = run(pair.east, disk, *ONE)
    row = found["ingest warm, one file, against kvikio"]
    assert (row["status"], row["reason"]) == ("WAIVED", "NOT_REQUESTED")


def test_tables_have_rows(pair, disk):
    pytest.importorskip("pyarrow")
    done, found = run(pair.east, disk, "--works", "parquet", "--conditions", "warm")
    assert done.returncode == 0, done.stdout + done.stderr
    held = [each for work, each in found.items() if "against pyarrow" in work]
    assert len(held) == len(tables.SOME)
    assert all(each["status"] == "OK" and each["verified"] and each["floor"] is None for each in held)
    assert any("libcudf" in work and each["status"] == "WAIVED" for work, each in found.items())


def test_no_room_is_said(pair, disk):
    _, found = run(pair.east, disk, "--works", "safetensors", "--sizes", "4096GiB")
    assert {each["reason"] for each in found.values()} == {"NO_MEMORY"}
    assert all(each["status"] == "WAIVED" for each in found.values())


def test_ctrl_c_keeps_the_rows_until_then(pair, disk):
    pytest.importorskip("torch")
    process = subprocess.Popen(program(pair.east, disk, *ONE, "--sizes", "1MiB,2MiB"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
    for line in process.stderr:
        if line.startswith("ingest warm, one file, 2 MiB"):
            process.send_signal(signal.SIGINT)
            break
    output, _ = process.communicate()
    assert process.returncode == 130
    assert "ingest warm, one file" in output
    with (disk / "rows.json").open() as file:
        assert {each["bytes"] >> 20 for each in json.load(file)} <= {0, 1}
    assert not list(disk.glob("onecopy-ingest.*"))


@pytest.mark.parametrize("words", [["--sizes", "1"], ["--sizes", "much"], ["--loaders", "nobody"], ["--samples", "0"],
                                   ["--conditions", "hot"], ["--onecopyd", "/bin/true"]])
def test_what_is_asked_wrongly_is_refused(pair, disk, words):
    done = subprocess.run(program(pair.east, disk, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert not (disk / "rows.json").exists()

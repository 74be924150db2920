"""Files of arrays: safetensors, loaded and saved, and what holds for .npy alike."""

import asyncio
import fnmatch
import gc
import json
import os
import time

import fake_gpus
import numpy
import pytest
import safetensors
import safetensors.numpy
from array_files import entry, model, pieces, raw, same, values

import onecopy
from onecopy.formats import _room

@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(model(), path, {"made": "here"})
    return path


def test_what_safetensors_wrote_is_loaded(east, file):
    loaded = east.load(file, checksum=True)
    same(loaded, model())
    assert loaded.metadata == {"made": "here"}
    done, = loaded.transfers
    assert done.receipt.path == "storage-bounce"
    assert done.receipt.checksum.verified
    assert done.bytes == sum(each.nbytes for each in model().values())
    assert f"{file}@" in done.source
    assert len({each.buffer.id for each in loaded.values()}) == 1  # all of one memory


def test_what_was_saved_is_loaded_by_safetensors(east, tmp_path):
    arrays = model()
    held = {name: east.empty(each.shape, each.dtype) for name, each in arrays.items()}  # memory that is shared
    for name, each in arrays.items():
        numpy.asarray(held[name])[...] = each
    for what, given in ({"NumPy's": arrays, "shared": held}).items():
        path = tmp_path / what / "model.safetensors"
        path.parent.mkdir()
        saved = east.save(path, given, metadata={"made": "ü"}, sync=True, checksum=True)
        assert sum(each.bytes for each in saved) == sum(each.nbytes for each in arrays.values())
        assert all(each.checksum.verified for each in saved.receipts)
        same(safetensors.numpy.load_file(path), arrays)
        with safetensors.safe_open(path, "numpy") as opened:
            assert opened.metadata() == {"made": "ü"}
        assert os.listdir(path.parent) == ["model.safetensors"]
        same(east.load(path), arrays)


def test_loaded_arrays_are_saved_and_moved_on(east, west, file, tmp_path):
    loaded = east.load(file)
    east.save(tmp_path / "copy.safetensors", loaded, metadata=loaded.metadata)
    same(safetensors.numpy.load_file(tmp_path / "copy.safetensors"), model())
    there = west.empty(60, "int16")
    east.transfer(loaded["layer.int16"], there.buffer)  # a part of the memory, by its own range
    assert (numpy.asarray(there) == values(60, "int16")).all()
    east.transfer(numpy.asarray(loaded["layer.int16"])[1:], loaded["layer.uint16"].endpoint(0, 80))
    assert numpy.asarray(loaded["layer.uint16"]).tobytes()[:80] == values(60, "int16").tobytes()[40:]
    assert numpy.asarray(loaded["layer.uint16"]).tobytes()[80:] == values(60, "uint16").tobytes()[80:]
    with pytest.raises(onecopy.OutOfRange):
        loaded["layer.int16"].endpoint(0, 121)
    loaded["one"].close()  # which is no end of the others'
    east.transfer(loaded["layer.int16"], there.buffer)


@pytest.mark.parametrize("pad", range(9))
def test_no_array_lies_where_its_elements_do_not_fit(east, tmp_path, pad):
    """The head may have any length, and the payload any order."""
    arrays = {"a": values(3, "uint8"), "b": values(300_001, "float32"), "c": values(1, "int8"), "d": values(5, "float64"),
              "e": values(7, "complex64"), "f": values(3, "int16")}
    header, payload = {}, b""
    for name, each in arrays.items():
        code = {"uint8": "U8", "float32": "F32", "int8": "I8", "float64": "F64", "complex64": "C64", "int16": "I16"}
        header[name] = entry(code[each.dtype.name], list(each.shape), len(payload), len(payload) + each.nbytes)
        payload += each.tobytes()
    path = tmp_path / "odd.safetensors"
    path.write_bytes(raw(header, payload, pad))
    same(safetensors.numpy.load_file(path), arrays)
    loaded = east.load(path)
    same(loaded, arrays)
    assert len({each.buffer.id for each in loaded.values()}) == 1
    assert len(loaded.transfers) == 1
    same(east.load(path, pool=east.pool(slab="4MiB")), arrays)


def test_a_large_payload_goes_past_the_page_cache_in_place(east, tmp_path):
    """What keeps it from that is where it lies in memory, which is up to us."""
    path = tmp_path / "large.safetensors"
    east.save(path, {"large": values(8 << 20, "int8"), "small": values(3, "uint8")}, sync=True)
    for pool in (None, east.pool(slab="32MiB")):
        loaded = east.load(path, pool=pool)
        array = numpy.asarray(loaded["large"])
        header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
        assert (array.ctypes.data - header) % 4096 == 0
        assert header % 4096 == 0
        assert (array == values(8 << 20, "int8")).all()


def test_types_that_numpy_has_not(east, tmp_path):
    payload = bytes(range(64))
    kinds = {"BF16": ("bfloat16", 2), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1),
             "F8_E8M0": ("float8_e8m0fnu", 1), "F8_E4M3FNUZ": ("float8_e4m3fnuz", 1), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 1)}
    header, at = {}, 0
    for code, (_, size) in kinds.items():
        header[code] = entry(code, [2, 4], at, at + 8 * size)
        at += 8 * size
    path = tmp_path / "few.safetensors"
    path.write_bytes(raw(header, payload[:at]))
    loaded = east.load(path)
    for code, (name, size) in kinds.items():
        array = loaded[code]
        assert (array.dtype, array.shape, array.nbytes) == (name, (2, 4), 8 * size)
        begin = header[code]["data_offsets"][0]
        assert bytes(array.memory) == payload[begin:begin + 8 * size]
        assert array.__dlpack__(max_version=(1, 0)) is not None
    east.save(tmp_path / "again.safetensors", loaded)
    again = east.load(tmp_path / "again.safetensors")
    assert {name: bytes(each.memory) for name, each in again.items()} == {
        name: bytes(each.memory) for name, each in loaded.items()}


def test_torch_takes_them(east, file, tmp_path):
    torch = pytest.importorskip("torch")
    import safetensors.torch

    arrays = {str(dtype): torch.arange(24).to(dtype).reshape(2, 12) for dtype in (
        torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2, torch.bool, torch.int64)}
    if hasattr(torch, "float4_e2m1fn_x2"):  # pairs, of which each is an element
        arrays["pairs"] = torch.arange(24, dtype=torch.uint8).reshape(2, 12).view(torch.float4_e2m1fn_x2)
    safetensors.torch.save_file(arrays, tmp_path / "torch.safetensors")
    loaded = east.load(tmp_path / "torch.safetensors")
    for name, each in arrays.items():
        found = torch.from_dlpack(loaded[name])
        assert (found.dtype, found.shape) == (each.dtype, each.shape)
        assert found.view(torch.uint8).equal(each.view(torch.uint8))
    east.save(tmp_path / "ours.safetensors", arrays)
    for name, each in safetensors.torch.load_file(tmp_path / "ours.safetensors").items():
        assert (each.dtype, each.shape) == (arrays[name].dtype, arrays[name].shape)
        assert each.view(torch.uint8).equal(arrays[name].view(torch.uint8))
    tensor = torch.from_dlpack(east.load(file)["layer.float32"])
    gc.collect()
    assert tensor.numpy().tobytes() == values(60, "float32").tobytes()  # it keeps the memory


def test_only_what_is_wanted_moves(east, file):
    arrays = model()
    for only, names in [
        (["one", "layer.int8"], ["one", "layer.int8"]),
        ("layer.*", [name for name in arrays if fnmatch.fnmatch(name, "layer.*")]),
        (["*16", "none"], [name for name in arrays if name.endswith("16")] + ["none"]),
        ([], []),
        ("none", ["none"]),
    ]:
        loaded = east.load(file, only=only)
        same(loaded, {name: arrays[name] for name in names})
        assert sum(each.bytes for each in loaded.transfers) == sum(arrays[name].nbytes for name in names)
    for only in (["one", "two"], "nix*", ["one", ""]):
        with pytest.raises(onecopy.NotFound, match="has no tensor"):
            east.load(file, only=only)
    with pytest.raises(onecopy.InvalidArgument):
        east.load(file, only=[3])


def sharded(folder, shards=12):
    weights, arrays = {}, {}
    for shard in range(shards):
        some = {f"{shard}.{name}": each for name, each in model(shard).items()}
        name = f"model-{shard:05}-of-{shards:05}.safetensors"
        safetensors.numpy.save_file(some, folder / name, {"format": "np", "shard": str(shard)})
        weights.update(dict.fromkeys(some, name))
        arrays.update(some)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weights}))
    return index, arrays


def test_a_model_in_many_files(east, tmp_path):
    index, arrays = sharded(tmp_path)
    loaded = east.load(index)
    same(loaded, arrays)
    assert loaded.metadata == {"format": "np"}
    assert len(loaded.transfers) == 12
    same(east.load(index, only="3.layer.*"), {name: each for name, each in arrays.items() if name.startswith("3.layer.")})
    assert len(east.load(index, only=["3.one", "4.one"]).transfers) == 2


def test_what_is_wrong_with_an_index_is_said(east, tmp_path):
    index, _ = sharded(tmp_path, 2)
    right = json.loads(index.read_text())
    pool = east.pool(slab="16MiB")
    first = next(iter(right["weight_map"]))
    for change, failure in [
        ({"weight_map": {}}, onecopy.InvalidArgument),
        ({"weight_map": [1]}, onecopy.InvalidArgument),
        ({}, onecopy.InvalidArgument),
        ({"weight_map": {"a": 3}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": "../model.safetensors"}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": "/etc/passwd"}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": ".."}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": "b\0c"}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": "\ud800"}}, onecopy.InvalidArgument),
        ({"weight_map": {"a": "not-there.safetensors"}}, onecopy.NotFound),
        ({"weight_map": {**right["weight_map"], "more": right["weight_map"][first]}}, onecopy.InvalidArgument),
    ]:
        index.write_text(json.dumps(change))
        with pytest.raises(failure):
            east.load(index, pool=pool)
    index.write_text(json.dumps(right))
    last = tmp_path / "model-00001-of-00002.safetensors"
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(onecopy.InvalidArgument, match="BAD_FORMAT"):
        east.load(index, pool=pool)
    assert pool.statistics.allocations == 0  # all heads are looked at first


def test_memory_of_a_pool_goes_back(east, file, tmp_path):
    pool = east.pool(slab="8MiB")
    loaded = east.load(file, pool=pool)
    same(loaded, model())
    assert pieces(pool) == 1
    kept = numpy.asarray(loaded["one"])
    del loaded
    assert pieces(pool) == 1
    assert kept == 1
    del kept
    assert pieces(pool) == 0
    with pytest.raises(onecopy.InvalidArgument):
        east.load(file, pool=pool, device=0)
    with pytest.raises(onecopy.ResourceExhausted):
        east.load(file, pool=east.pool(slab="1MiB", limit="1MiB"))


def meddled(monkeypatch, meddle):
    """Something happens to the file between the look at its head and the move of its bytes."""
    empty = _room.Room.empty

    def first_meddle(room, bytes):
        meddle()
        return empty(room, bytes)

    monkeypatch.setattr(_room.Room, "empty", first_meddle)


def test_a_file_that_is_cut_short_meanwhile(east, file, monkeypatch):
    pool = east.pool(slab="8MiB")
    meddled(monkeypatch, lambda: os.truncate(file, os.path.getsize(file) - 100_000))
    with pytest.raises(onecopy.Error) as failure:
        east.load(file, pool=pool)
    assert str(file) in str(failure.value)
    del failure
    assert pieces(pool) == 0
    monkeypatch.undo()
    with pytest.raises(onecopy.InvalidArgument, match="BAD_FORMAT"):
        east.load(file)
    east.ping()


def test_one_of_many_files_that_fails_ends_all(east, tmp_path, monkeypatch):
    index, _ = sharded(tmp_path)
    pool = east.pool(slab="64MiB")
    broken = tmp_path / "model-00007-of-00012.safetensors"
    meddled(monkeypatch, lambda: os.truncate(broken, 3000))
    with pytest.raises(onecopy.Error) as failure:
        east.load(index, pool=pool)
    assert not isinstance(failure.value, onecopy.Cancelled)
    assert broken.name in str(failure.value)
    del failure
    assert pieces(pool) == 0


def test_a_file_that_is_replaced_meanwhile_is_read_as_it_was(east, file, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.write_bytes(bytes(os.path.getsize(file)))
    meddled(monkeypatch, lambda: os.replace(other, file))
    same(east.load(file), model())


# ---- save


def test_what_cannot_be_saved_is_said_and_leaves_all_as_it_was(east, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"as it was")
    right = values(60, "float32").reshape(6, 10)
    for arrays, options in [
        ({"a": right.T}, {}), ({"a": right[:, ::2]}, {}), ({"a": right[::-1]}, {}), (right, {}), ({"a": 3}, {}),
        ({"a": [1, 2]}, {}), ({3: right}, {}), ({"__metadata__": right}, {}), ({"\ud800": right}, {}),
        ({"a": values(6, "complex128")}, {}), ({"a": values(6, ">f4")}, {}), ({"a": numpy.array(["x"])}, {}),
        ({"a": numpy.array([object()])}, {}), ({"a": right}, {"metadata": {"a": 1}}), ({"a": right}, {"format": "zip"}),
        ({"a": right}, {"format": "npy", "metadata": {"a": "b"}}), ({"a": right, "b": right}, {"format": "npy"}),
        ({"a": right}, {"deadline": -1}), ({"a": right, "b": numpy.broadcast_to(right, (3, 6, 10))}, {}),
    ]:
        with pytest.raises(onecopy.InvalidArgument) as failure:
            east.save(path, arrays, **options)
        assert failure.value.remedy or "surrogates" in failure.value.message, failure.value
        assert (path.read_bytes(), os.listdir(tmp_path)) == (b"as it was", [path.name])
    for place, failure in [(tmp_path / "gone" / "x.npy", onecopy.NotFound), (tmp_path, onecopy.InvalidArgument),
                           ("/dev/null", onecopy.InvalidArgument), (tmp_path / "x", onecopy.InvalidArgument)]:
        with pytest.raises(failure):
            east.save(place, {"a": right}, format=None if place == tmp_path / "x" else "npy")
    assert os.listdir(tmp_path) == [path.name]


def test_a_save_that_fails_in_its_midst_leaves_nothing(east, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"as it was")
    gone = east.empty(4_000_000, "uint8")
    gone.close()
    with pytest.raises(onecopy.NotFound):
        east.save(path, {"a": values(4_000_000, "uint8"), "b": gone})
    with pytest.raises(onecopy.FailedPrecondition):
        east.save(path, {"a": values(4_000_000, "uint8")}, at_most=1)
    with pytest.raises(onecopy.DeadlineExceeded):
        east.save(path, {f"{n}": values(4_000_000, "uint8") for n in range(20)}, deadline=0.001)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"as it was", [path.name])
    east.save(path, {"a": values(10, "uint8")})
    same(safetensors.numpy.load_file(path), {"a": values(10, "uint8")})


def test_arrays_of_one_memory_are_saved_by_one_request(east, tmp_path):
    """A thousand of them, wherever they lie in it; by none at all what is small and in memory that nobody knows."""
    pool = east.pool(slab="8MiB")
    whole = numpy.zeros(1_000_000, "float32")
    made = {"of a pool": [pool.empty((7, 50), "float32") for _ in range(1000)],
            "of NumPy": [whole[at:at + 350].reshape(7, 50) for at in range(0, 1_000_000, 1000)]}
    east.save(tmp_path / "all.safetensors", {f"{n}": each for n, each in enumerate(made["of NumPy"])})
    made["loaded"] = list(east.load(tmp_path / "all.safetensors").values())
    for what, arrays in made.items():
        for number, each in enumerate(arrays):
            numpy.asarray(each)[:] = number
        path = tmp_path / f"{what}.safetensors"
        before = {each.id for each in east.transfers()}
        saved = east.save(path, {f"{number}": each for number, each in enumerate(arrays)})
        asked = {each.id for each in east.transfers()} - before
        assert (len(saved), saved[0].bytes) == (1, 1_400_000), what
        if what == "of NumPy":
            assert (asked, saved[0].receipt.path) == (set(), "client")
            assert [(each.by, each.bytes) for each in saved[0].receipt.steps] == [("client", 1_400_000)]
        else:
            assert asked == {saved[0].id}
        same(safetensors.numpy.load_file(path), {f"{n}": numpy.full((7, 50), n, "float32") for n in range(1000)})


def test_after_a_restart_of_the_daemon(daemon, tmp_path):
    node = onecopy.connect(daemon.run_dir)
    arrays = model()
    path = tmp_path / "model.safetensors"
    node.save(path, arrays)
    loaded = node.load(path)
    daemon.kill()
    daemon.start_again()
    node.save(path, arrays)  # registered anew
    node.save(tmp_path / "loaded.safetensors", loaded)
    same(node.load(path), arrays)
    same(safetensors.numpy.load_file(tmp_path / "loaded.safetensors"), arrays)


def test_without_waiting(east, file, tmp_path):
    async def both():
        loaded = await east.aio.load(file, only="layer.*")
        await east.aio.save(tmp_path / "out.safetensors", loaded, sync=True)
        return loaded

    loaded = asyncio.run(both())
    same(safetensors.numpy.load_file(tmp_path / "out.safetensors"), {name: numpy.asarray(each) for name, each in loaded.items()})


def test_a_task_that_is_cancelled_gives_the_memory_back(east, tmp_path):
    index, arrays = sharded(tmp_path)
    pool = east.pool(slab="64MiB")

    async def cancelled():
        task = asyncio.create_task(east.aio.load(index, pool=pool))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for _ in range(5):
        asyncio.run(cancelled())
    deadline = time.monotonic() + 60
    while pieces(pool):  # until the thread that made the call has let go, too
        assert time.monotonic() < deadline
    same(east.load(index, pool=pool), arrays)


def test_the_functions_of_the_package(pair, monkeypatch, file, tmp_path):
    monkeypatch.setenv("ONECOPY_RUN_DIR", str(pair.east.run_dir))
    loaded = onecopy.load(file)
    same(loaded, model())
    onecopy.save(tmp_path / "out.safetensors", loaded)
    same(onecopy.load(tmp_path / "out.safetensors", node=onecopy.connect(pair.west.run_dir)), model())


def test_into_a_gpu_and_back(gpu_node, gpu_pool, file, tmp_path):
    for options in ({"device": 0}, {"device": "cuda:0"}, {"pool": gpu_pool}):
        loaded = gpu_node.load(file, **options)
        for name, each in model().items():
            found = loaded[name]
            assert (found.dtype, found.shape, found.device) == (each.dtype.name, each.shape, 0)
            if each.nbytes:
                assert fake_gpus.read(found.pointer, each.nbytes) == each.tobytes(), name
                assert found.pointer % 16 == 0
                assert found.__cuda_array_interface__["data"] == (found.pointer, False)
        assert all(each.path == "storage-bounce" for each in loaded.receipts)
        gpu_node.save(tmp_path / "gpu.safetensors", loaded, metadata={"a": "b"})
        same(safetensors.numpy.load_file(tmp_path / "gpu.safetensors"), model())
    del loaded, found
    assert pieces(gpu_pool) == 0
    with pytest.raises(onecopy.Error):
        gpu_node.load(file, device="cuda:77")


def test_nothing_stays_open(east, file, tmp_path):
    def all_ways():
        index, _ = sharded(tmp_path, 3)
        east.save(tmp_path / "out.safetensors", east.load(file))
        east.load(index)
        for name in ("gone.safetensors", "wrong.safetensors"):
            (tmp_path / "wrong.safetensors").write_bytes(b"1234567890")
            with pytest.raises(onecopy.Error):
                east.load(tmp_path / name)
        gc.collect()

    all_ways()
    before = len(os.listdir("/proc/self/fd")), len(east.buffers())
    for _ in range(5):
        all_ways()
    assert (len(os.listdir("/proc/self/fd")), len(east.buffers())) <= before

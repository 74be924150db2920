"""Files of arrays into a GPU's memory and back, as torch and safetensors have them."""

import gc

import pytest

import onecopy
import onecopy.arrow
import onecopy.parquet

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)
safetensors_torch = pytest.importorskip("safetensors.torch")

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2, torch.bool,
          torch.uint8, torch.int16, torch.int64]


def model(device="cpu"):
    small = {str(dtype): (torch.arange(240) % 100).to(dtype).reshape(6, 40).to(device) for dtype in DTYPES}
    # Made here for both: a GPU rounds such numbers otherwise.
    return {**small, "large": torch.arange(20_000_003, dtype=torch.float32).to(device)}


def same(loaded, expected):
    assert set(loaded) == set(expected)
    for name, each in expected.items():
        found = torch.from_dlpack(loaded[name])
        assert (found.dtype, found.shape, found.device.type) == (each.dtype, each.shape, "cuda")
        assert found.data_ptr() % 16 == 0
        assert found.view(torch.uint8).cpu().equal(each.view(torch.uint8).cpu()), name


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors_torch.save_file(model(), path)
    return path


def test_a_model_into_a_gpu(east, file):
    pool = east.pool(device=0, slab="256MiB")
    for options in ({"device": 0}, {"device": torch.device("cuda:0")}, {"pool": pool}):
        loaded = east.load(file, checksum=True, **options)
        same(loaded, model())
        assert all(each.path == "storage-bounce" and each.checksum.verified for each in loaded.receipts)
    del loaded
    gc.collect()
    assert pool.statistics.blocks_in_use == 0


def test_a_model_of_a_gpu_into_a_file(east, file, tmp_path):
    for number, given in enumerate((model("cuda"), east.load(file, device=0))):
        torch.cuda.synchronize()
        path = tmp_path / f"{number}.safetensors"
        east.save(path, given, metadata={"format": "pt"}, sync=True, checksum=True)
        for name, each in safetensors_torch.load_file(path).items():
            assert each.view(torch.uint8).equal(model()[name].view(torch.uint8)), name


def test_some_tensors_of_many(east, file):
    same(east.load(file, device=0, only=["torch.bool", "torch.float*"]),
         {name: each for name, each in model().items() if name == "torch.bool" or name.startswith("torch.float")})


def test_a_model_in_batches(east, file):
    """As vLLM's loader reads it: what was read is used on the stream while the next batch comes."""
    from onecopy.formats import _array_files
    from onecopy.integrations import _shards

    moves = _array_files.options(None, True, None)
    expected, got = model(), {}
    before = {each.id for each in east.buffers()}
    most = 0
    with _shards.Reader(east, [str(file)], torch.device("cuda:0"), 2000, lambda name: name != "torch.bool", moves) as reader:
        for named, transfers in reader:
            assert all(each.receipt.checksum.verified for each in transfers)
            most = max(most, sum(each.bytes for each in east.buffers() if each.id not in before))
            while named:
                name, tensor = named.pop()
                assert tensor.is_cuda
                got[name] = tensor.clone()  # on the stream, and not waited for
                del tensor
    assert set(got) == set(expected) - {"torch.bool"}
    for name, each in got.items():
        assert (each.dtype, each.shape) == (expected[name].dtype, expected[name].shape)
        assert each.view(torch.uint8).cpu().equal(expected[name].view(torch.uint8)), name
    assert most <= 2 * (expected["large"].nbytes + (4 << 20))  # slabs, of whole pages of a GPU
    del reader
    gc.collect()
    assert {each.id for each in east.buffers()} <= before


def test_columns(east, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pyarrow.table({"id": list(range(100_000)), "name": ["x"] * 100_000})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=30_000)
    for chunk in onecopy.parquet.load(east, tmp_path / "x.parquet", ["id"], device=0):
        expected = (tmp_path / "x.parquet").read_bytes()[chunk.offset:chunk.offset + chunk.data.nbytes]
        assert bytes(torch.from_dlpack(chunk.data).cpu().numpy()) == expected
    with pyarrow.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    batch, = onecopy.arrow.load(east, tmp_path / "x.arrow", ["id"], device=0)
    at, size = batch.layout.columns[0].buffers[1]
    assert torch.from_dlpack(batch.memory)[at:at + size].view(torch.int64).cpu().tolist() == list(range(100_000))
    whole = onecopy.arrow.load(east, tmp_path / "x.arrow", device=0)
    saved = onecopy.arrow.save(east, tmp_path / "again.arrow", whole, checksum=True)
    assert [each.receipt.checksum.verified for each in saved] == [True]
    with pyarrow.OSFile(str(tmp_path / "again.arrow")) as opened:
        assert pyarrow.ipc.open_file(opened).read_all().equals(table)


def test_streams_of_orc(east, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.orc

    import onecopy.orc

    file = tmp_path / "x.orc"
    pyarrow.orc.write_table(pyarrow.table({"id": list(range(100_000)), "name": ["x"] * 100_000}), file, compression="zstd")
    whole = file.read_bytes()
    chunks = onecopy.orc.load(east, file, device=0, checksum=True)
    assert all(each.checksum.verified for each in chunks.receipts)
    found = [each for chunk in chunks for each in chunk.streams]
    assert found
    for each in found:
        assert bytes(torch.from_dlpack(each.data).cpu().numpy()) == whole[each.offset:each.offset + each.data.nbytes]


def test_columns_of_torch_are_saved(east, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    ids, prices = torch.arange(1_000_000, device="cuda"), torch.arange(1_000_000, dtype=torch.float32, device="cuda") / 2
    torch.cuda.synchronize()
    onecopy.arrow.save(east, tmp_path / "x.arrow", {"id": ids, "price": prices}, checksum=True)
    with pyarrow.OSFile(str(tmp_path / "x.arrow")) as opened:
        found = pyarrow.ipc.open_file(opened).read_all()
    assert found.column("id").to_numpy().tolist() == ids.cpu().tolist()
    assert found.column("price").to_numpy().tolist() == prices.cpu().tolist()


def test_fortran_order(east, tmp_path):
    import numpy

    file, again = tmp_path / "x.npy", tmp_path / "again.npy"
    array = numpy.asfortranarray(numpy.arange(6000, dtype="float32").reshape(20, 300))
    numpy.save(file, array)
    tensor = torch.from_dlpack(east.load(file, device=0).array)
    assert tensor.stride() == (1, 20)
    assert (tensor.cpu().numpy() == array).all()
    east.save(again, tensor)
    found = numpy.load(again)
    assert found.flags.f_contiguous
    assert (found == array).all()


def test_a_file_to_each_of_two_tensors(east, file):
    size = file.stat().st_size
    both = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    done = east.copy_file_to_each(file, both, checksum=True)
    assert [each.receipt.checksum.verified for each in done] == [True, True]
    assert all(bytes(each.cpu().numpy()) == file.read_bytes() for each in both)

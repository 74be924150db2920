"""Names of tensors on a GPU: torch puts most of them into blocks that they share, and uses these again."""

import gc

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)


def neighbours(count=8, elements=1000):
    """Small tensors of one block of torch's, with known numbers."""
    made = [torch.full((elements,), float(number), device="cuda:0") for number in range(count)]
    torch.cuda.synchronize()
    return made


def test_a_name_of_a_tensor_is_not_its_block(east, west):
    tensors = neighbours()
    buffers = west.register(tensors)
    assert len({each.view_of for each in buffers}) < len(buffers)  # they share a block
    assert {each.bytes for each in buffers} == {4000}
    named = west.register(tensors[3], "three")
    assert named.shape == (1000,) and named.dtype == "float32"
    ones = torch.full((1000,), -1.0, device="cuda:0")
    torch.cuda.synchronize()
    east.transfer(ones, "west:three")
    for number, tensor in enumerate(tensors):
        assert (tensor == (-1.0 if number == 3 else float(number))).all(), number
    with pytest.raises(onecopy.OutOfRange):
        east.transfer("west:three@0+4004", torch.zeros(1001, device="cuda:0"))


def test_gaps_stay_behind_the_name(east, west):
    matrix = torch.arange(64 * 64, dtype=torch.int32, device="cuda:0").reshape(64, 64)
    torch.cuda.synchronize()
    west.register(matrix[:, 5], "fifth")
    west.register(matrix.t(), "turned")
    for name, part in (("fifth", matrix[:, 5]), ("turned", matrix.t())):
        for got in (torch.zeros(part.shape, dtype=torch.int32, device="cuda:0"), torch.zeros(part.shape, dtype=torch.int32)):
            torch.cuda.synchronize()
            east.transfer(f"west:{name}", got)
            assert (got.cpu() == part.cpu()).all()
    before = matrix.cpu()
    minus = torch.full((64,), -7, dtype=torch.int32, device="cuda:0")
    torch.cuda.synchronize()
    east.transfer(minus, "west:fifth", checksum=True)
    before[:, 5] = -7
    assert (matrix.cpu() == before).all()


def test_a_name_ends_before_its_memory_is_another_tensors(east, west):
    kept = neighbours(2)  # so that the block stays registered
    west.register(kept)
    for round in range(20):
        tensor = torch.full((1000,), 1.0, device="cuda:0")
        torch.cuda.synchronize()
        where = tensor.data_ptr()
        west.register(tensor, "short")
        del tensor
        gc.collect()
        another = torch.full((1000,), 2.0, device="cuda:0")
        torch.cuda.synchronize()
        if another.data_ptr() == where:
            with pytest.raises(onecopy.NotFound):
                east.transfer(torch.full((1000,), 3.0, device="cuda:0"), "west:short")
            assert (another == 2.0).all(), round
        else:
            assert "short" not in {each.name for each in west.buffers()}


def test_a_pools_tensor_has_a_name_of_its_own(east, west):
    pool = west.pool(device=0, slab="2MiB", limit="2MiB")
    one, other = pool.empty(1000, "float32"), pool.empty(1000, "float32")
    first, second = torch.from_dlpack(one), torch.from_dlpack(other)
    first.fill_(1)
    second.fill_(2)
    torch.cuda.synchronize()
    west.register(second, "pooled")
    got = torch.zeros(1000, device="cuda:0")
    torch.cuda.synchronize()
    east.transfer("west:pooled", got)
    assert (got == 2).all()
    del other, second
    gc.collect()
    with pytest.raises(onecopy.NotFound):
        east.transfer("west:pooled", got)
    assert (first == 1).all()


def test_a_process_maps_a_named_tensor(pair, west):
    base = torch.arange(4096, dtype=torch.float32, device="cuda:0")
    torch.cuda.synchronize()
    west.create("table", "2MiB", memory="cuda:0")
    pair.west.cli("buffer", "view", "part", "table@4096+4096", "--shape", "1024", "--dtype", "float32")
    west.transfer(base[:1024], "part")
    with west.map("part") as part:
        assert part.shape == (1024,) and part.dtype == "float32"
        seen = torch.from_dlpack(part)
        assert (seen == base[:1024]).all()
        seen.fill_(5)
        torch.cuda.synchronize()
        del seen
    got = torch.zeros(1024, device="cuda:0")
    torch.cuda.synchronize()
    west.transfer("table@4096+4096", got)
    assert (got == 5).all()
    west.delete("table", force=True)

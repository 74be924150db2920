"""Blocks of a GPU's memory, chosen by arrays of torch."""

import time

import pytest

import onecopy

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

BLOCK = 16 << 10


def cache(blocks):
    made = torch.randint(0, 256, (blocks, BLOCK), dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize()
    return made


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_blocks_are_gathered_by_offsets_of_torch(east, west, dtype):
    blocks, count = cache(512), 256
    target = torch.zeros((count, BLOCK), dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize()
    west.register(blocks, f"cache-{dtype}")
    chosen = torch.randperm(512)[:count]
    done = east.transfer(f"west:cache-{dtype}", target,
                         ranges=((chosen * BLOCK).to(dtype), (torch.arange(count) * BLOCK).to(dtype), BLOCK))
    assert done.bytes == count * BLOCK
    assert (target == blocks[chosen.to("cuda:0")]).all()


def test_numbers_on_a_gpu_are_refused_by_name(east):
    blocks, target = cache(4), torch.zeros((4, BLOCK), dtype=torch.uint8, device="cuda:0")
    offsets = torch.arange(4, device="cuda:0") * BLOCK
    torch.cuda.synchronize()
    with pytest.raises(onecopy.InvalidArgument, match="memory of a GPU"):
        east.transfer(blocks, target, ranges=(offsets, offsets, BLOCK))
    assert not target.any()


@pytest.mark.parametrize(("count", "most"), [(1024, 15), (65536, 45)])  # 6.4 and 21 were measured; the aim is 2 and 1.2
def test_many_blocks_beside_a_gather_by_torch(east, count, most):
    blocks, target = cache(count), torch.zeros((count, BLOCK), dtype=torch.uint8, device="cuda:0")
    chosen = torch.randperm(count)
    taken, put = chosen * BLOCK, torch.arange(count) * BLOCK
    on_gpu = chosen.to("cuda:0")
    torch.cuda.synchronize()
    ours, theirs, moved = [], [], []
    for _ in range(5):
        begun = time.perf_counter()
        done = east.transfer(blocks, target, ranges=(taken, put, BLOCK))
        ours.append(time.perf_counter() - begun)
        moved.append(done.receipt.seconds)
        begun = time.perf_counter()
        other = blocks[on_gpu]
        torch.cuda.synchronize()
        theirs.append(time.perf_counter() - begun)
    assert (target == other).all()
    print(f"{count} blocks of 16 KiB: {min(ours) * 1e3:.2f} ms (its receipt {min(moved) * 1e3:.2f}), "
          f"by torch {min(theirs) * 1e3:.2f}: {min(ours) / min(theirs):.1f} times")
    assert min(ours) / min(theirs) <= most

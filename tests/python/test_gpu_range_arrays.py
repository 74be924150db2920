"""Blocks of a GPU's memory, chosen by arrays of torch."""

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

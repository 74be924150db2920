"""One payload in GPU memory for several buffers of two daemons, also in GPU memory and in host memory."""

import time

import numpy
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that torch can use", allow_module_level=True)

GIB = 1 << 30


def test_tensors_of_two_daemons(east, west):
    """East's second tensor takes from the source, west's from that, and west's host memory from west's tensor."""
    gpus = [f"cuda:{index % torch.cuda.device_count()}" for index in range(3)]
    source = torch.randint(0, 255, (GIB,), dtype=torch.uint8, device=gpus[0])
    beside, there = (torch.zeros(GIB, dtype=torch.uint8, device=gpu) for gpu in gpus[1:])
    torch.cuda.synchronize()
    west.register(there, "broadcast-there")
    host = west.empty(GIB, "uint8")
    ends = [beside, "west:broadcast-there", host.endpoint()]
    for checksum in (True, False):
        begun = time.perf_counter()
        copies = east.broadcast(source, ends, checksum=checksum)
        seconds = time.perf_counter() - begun
        assert [copy.error for copy in copies] == [None] * 3
    assert torch.equal(source.to(gpus[1]), beside)
    assert torch.equal(source.to(gpus[2]), there)
    assert (numpy.asarray(host) == source.cpu().numpy()).all()
    assert [len(copy.origins) for copy in copies] == [1, 1, 1]
    assert copies[2].origins[0].source == "west:broadcast-there"
    alone = []
    for end in ends:
        begun = time.perf_counter()
        east.transfer(source, end)
        alone.append(time.perf_counter() - begun)
    paths = [copy.transfer.receipt.path for copy in copies]
    print(f"1 GiB into three buffers: {seconds:.3f} s by {paths}; one by one from the source {sum(alone):.3f} s, {alone}")
    assert seconds < sum(alone)

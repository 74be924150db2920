"""The tensors of a model, from one GPU to another, beside plain copies."""

import statistics
import time

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2:
    pytest.skip("needs 2 GPUs", allow_module_level=True)

COUNT = 290
BYTES = 16_100_000_000


def seconds_of(call):
    times = []
    for _ in range(5):
        for each in range(2):
            torch.cuda.synchronize(each)
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def test_a_state_dict_beside_plain_copies(east):
    elements = BYTES // COUNT // 4
    here = {str(number): torch.full((elements,), float(number), device="cuda:0") for number in range(COUNT)}
    there = {key: torch.zeros_like(each, device="cuda:1") for key, each in here.items()}

    def plain():
        for key, each in here.items():
            there[key].copy_(each, non_blocking=True)
        for each in range(2):
            torch.cuda.synchronize(each)

    def one_request():
        return east.transfer(here, there)

    def one_by_one():
        for key, each in here.items():
            east.transfer(each, there[key])

    def at_once():
        for each in [east.start(each, there[key]) for key, each in here.items()]:
            each.wait()

    measured = {}
    for call, floor in ((one_request, 0.6), (one_by_one, 0.65), (at_once, 0.8)):  # the aims are 0.95, 0.8, 0.9
        for each in there.values():
            each.zero_()
        call(), call(), call()
        assert all(float(each[0]) == float(each[-1]) == float(key) for key, each in there.items())
        measured[call.__name__] = (seconds_of(plain) / seconds_of(call), floor)
    print(", ".join(f"{name}: {ratio:.3f} of plain copies" for name, (ratio, _) in measured.items()))
    for name, (ratio, floor) in measured.items():
        assert ratio >= floor, name

"""Transfers whose ends are named, and whose lengths nobody says."""

import numpy as np
import pytest

import onecopy

SIZE = 16384


def by_ring(node, done):
    return node.transfer_of(done.id).receipt.evidence.get("submitted") == "ring"


@pytest.fixture
def named(east, west):
    near, far = np.asarray(east.empty(SIZE, "uint8")), np.asarray(west.empty(SIZE, "uint8"))
    near[:], far[:] = np.arange(SIZE) % 251, np.arange(SIZE) % 241
    east.register(near, "near")
    west.register(far, "far")
    yield {"near": near, "west:far": far}
    assert east.unregister(near) and west.unregister(far)


@pytest.mark.parametrize("name", ["near", "west:far"])
def test_a_source_that_is_only_named_goes_by_shared_memory(east, named, name):
    target = np.asarray(east.empty(SIZE, "uint8"))
    for _ in range(4):
        target[:] = 0
        done = east.transfer(name, target)
        assert (target == named[name]).all()
    assert by_ring(east, done)
    short = east.empty(SIZE // 2, "uint8")
    with pytest.raises(onecopy.Error) as refused:
        east.transfer(name, short)
    assert refused.value.reason == "SIZE_MISMATCH"


def test_two_names_go_by_shared_memory(east, named):
    for _ in range(4):
        named["west:far"][:] = 0
        done = east.transfer("near", "west:far")
        assert (named["west:far"] == named["near"]).all()
    assert done.bytes == SIZE
    assert by_ring(east, done)


def test_a_name_that_means_another_buffer_by_now_moves_that_one(east, west):
    target = np.asarray(east.empty(SIZE, "uint8"))
    for length in (SIZE, SIZE // 2):
        array = np.asarray(west.empty(length, "uint8"))
        array[:] = length % 255
        west.register(array, "again")
        for _ in range(4):
            target[:] = 0
            done = east.transfer("west:again", target[:length])
            assert done.bytes == length
            assert (target[:length] == length % 255).all() and (target[length:] == 0).all()
        assert west.unregister(array)


@pytest.mark.parametrize("options", [{"path": "tcp-*"}, {"at_most": 3}, {"link": "tcp"}])
def test_what_a_policy_allows_goes_by_shared_memory(east, named, options):
    target = np.asarray(east.empty(SIZE, "uint8"))
    for _ in range(4):
        target[:] = 0
        done = east.transfer("west:far", target, **options)
        assert (target == named["west:far"]).all()
    assert by_ring(east, done)
    assert east.transfer("west:far", target, path="tcp-staged").receipt.path == "tcp-staged"

"""One payload into buffers of many nodes."""

import asyncio

import numpy
import pytest

import onecopy

MIB = 1 << 20


def test_arrays_go_from_node_to_node(east, west):
    source = numpy.arange(3 * MIB, dtype="uint8")
    there, here = west.empty(source.size, "uint8"), numpy.zeros(source.size, "uint8")
    seen = []
    done = east.broadcast(source, [there.endpoint(), here], checksum=True, piece_bytes=MIB,
                          progress=lambda transfer: seen.append((transfer.bytes_done, transfer.bytes)))
    assert [copy.error for copy in done] == [None, None]
    numpy.testing.assert_array_equal(there, source)
    numpy.testing.assert_array_equal(here, source)
    # What is of the source's node comes first in the chain.
    assert [origin.source.split(":")[0] for copy in done for origin in copy.origins] == ["east", "east"]
    assert [origin.bytes for copy in done for origin in copy.origins] == [source.size] * 2
    assert all(copy.transfer.receipt.checksum.verified for copy in done)
    assert [copy.transfer.state for copy in done] == ["SUCCEEDED"] * 2
    assert done[0].destination.startswith("west:")
    assert seen[-1][1] == 2 * source.size >= seen[-1][0]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_what_fails_is_told_of_each(east, west):
    source, there = numpy.ones(MIB, "uint8"), west.empty(MIB, "uint8")

    def stop(_):
        raise KeyError("enough")

    with pytest.raises(KeyError):
        east.broadcast(source, [there.endpoint()], piece_bytes=4096, progress=stop)
    for bad, reason in (
        ([], "BAD_ARGUMENT"), ("west:a", "BAD_ARGUMENT"), (["west:none"], "BUFFER_NOT_FOUND"),
        ([numpy.zeros(MIB - 1, "uint8")], "SIZE_MISMATCH"), ([numpy.zeros((MIB, 2), "uint8")[:, 0]], "BAD_ARGUMENT"),
        ([there.endpoint(), there.endpoint()], "BAD_ARGUMENT"), (["nowhere:a"], "PEER_NOT_FOUND"),
    ):
        with pytest.raises(onecopy.Error) as failure:
            east.broadcast(source, bad)
        assert failure.value.reason == reason, bad
    with pytest.raises(onecopy.InvalidArgument):
        east.broadcast(source, [there.endpoint()], piece_bytes=-1)
    with pytest.raises(onecopy.FailedPrecondition) as failure:
        east.broadcast(source, [there.endpoint()], path="rdma-*")
    assert failure.value.reason == "POLICY_UNMET"


def test_a_task_awaits_it(east, west):
    there = west.empty(MIB, "uint8")
    done = asyncio.run(east.aio.broadcast(numpy.full(MIB, 7, "uint8"), [there.endpoint()]))
    assert done[0].error is None
    assert numpy.asarray(there)[-1] == 7

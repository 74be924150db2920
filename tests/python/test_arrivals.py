"""What arrives in buffers, and messages, as their owner hears of them."""

import asyncio
import os
import signal
import threading

import numpy
import pytest

import onecopy


def fill(node, to, count=100_000, **options):
    source = node.empty(count, "uint8")
    numpy.asarray(source)[:] = 7
    return node.transfer(source, to, **options)


@pytest.fixture
def frame(east):
    east.create("frame", 100_000)
    yield "frame"
    if any(each.name == "frame" for each in east.buffers()):
        east.delete("frame", force=True)


def test_a_transfer_of_another_node_and_its_message(east, west, frame):
    with east.watch(frame) as arrivals:
        done = fill(west, f"east:{frame}@1000", 90_000, message="frame 1")
        arrival = next(arrivals)
        assert (arrival.buffer, arrival.offset, arrival.bytes, arrival.payload_bytes) == (frame, 1000, 90_000, 90_000)
        assert arrival.message == b"frame 1"
        assert arrival.transfer == done.id
        assert arrival.sender == f"{os.getuid()}@west"
        assert arrival.time.tzinfo is not None
        assert (numpy.asarray(east.map(frame))[1000:91_000] == 7).all()
        assert arrivals.poll() == []


def test_messages_alone_come_in_their_order(east, west, frame):
    with east.watch(frame) as arrivals:
        west.tell(f"east:{frame}", b"\xff\x00one", request_id="tell-1")
        west.tell(f"east:{frame}", b"\xff\x00one", request_id="tell-1")
        east.tell(frame, "two")
        told = [next(arrivals), next(arrivals)]
        assert [each.message for each in told] == [b"\xff\x00one", b"two"]
        assert [each.bytes for each in told] == [0, 0]
        assert [each.transfer for each in told] == ["", ""]
        assert told[1].sequence == told[0].sequence + 1
        assert arrivals.poll() == []


def test_start_carries_a_message_too(east, west, frame):
    with east.watch(frame) as arrivals:
        source = west.empty(70_000, "uint8")
        west.start(source, f"east:{frame}@0+70000", message=b"begun").wait()
        assert next(arrivals).message == b"begun"


def test_what_was_not_dealt_with_is_told_again(east, frame):
    kept = east.create("kept", 4096, keep_arrivals=True)
    try:
        fill(east, kept, 4096)
        east.tell(kept, "after")
        with pytest.raises(ZeroDivisionError), east.watch(kept) as arrivals:
            first = next(arrivals)
            assert first.payload_bytes == 4096
            raise ZeroDivisionError
        with east.watch("kept") as arrivals:
            again = [next(arrivals), next(arrivals)]
            assert again[0] == first
            assert again[1].message == b"after"
        assert east.watch(kept).poll() == []
    finally:
        east.delete(kept)


def test_an_array_and_all_that_a_connection_has_registered(pair, west):
    node = onecopy.connect(pair.east.run_dir, keep_arrivals=True)
    array = numpy.zeros(70_000, "uint8")
    end = node.endpoint(array)
    with node.watch() as arrivals:
        fill(west, onecopy.Endpoint.parse(str(end)), 70_000)
        assert next(arrivals).payload_bytes == 70_000
    assert (array == 7).all()


def test_waiting_ends_by_its_time_and_by_ctrl_c(east, frame):
    arrivals = east.watch(frame)
    with pytest.raises(onecopy.DeadlineExceeded):
        arrivals.wait(0.05)
    interrupter = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        arrivals.wait(60)
    interrupter.join()
    east.tell(frame, "still there")
    assert arrivals.wait(60)[0].message == b"still there"


def test_another_thread_waits_too(east, frame):
    arrivals, told = east.watch(frame), []
    waits = threading.Thread(target=lambda: told.extend(arrivals.wait(60)))
    waits.start()
    east.tell(frame, "to a thread")
    waits.join()
    assert [each.message for each in told] == [b"to a thread"]


def test_a_buffer_that_goes_ends_its_watch(east):
    east.create("goes", 4096)
    arrivals = east.watch("goes")
    east.delete("goes")
    with pytest.raises(onecopy.NotFound, match="BUFFER_NOT_FOUND"):
        arrivals.wait(60)


def test_a_daemon_that_goes_ends_its_watches(daemon):
    node = onecopy.connect(daemon.run_dir)
    node.create("frame", 4096)
    arrivals = node.watch("frame")
    daemon.kill()
    with pytest.raises(onecopy.Unavailable):
        arrivals.wait(60)


def test_asyncio(east, west, frame):
    async def main():
        node = east.aio
        async with await node.watch(frame) as arrivals:
            for text in ("one", "two"):
                await west.aio.tell(f"east:{frame}", text)
            async for arrival in arrivals:
                if arrival.message == b"two":
                    break
            waits = asyncio.ensure_future(arrivals.wait())
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            await west.aio.transfer(numpy.ones(70_000, "uint8"), f"east:{frame}@0+70000", message=b"three")
            assert (await arrivals.wait(60))[0].message == b"three"
            assert arrivals.missed == 0

    asyncio.run(main())


def test_what_a_cancelled_call_has_taken_comes_with_the_next_one(east, frame):
    async def main():
        arrivals = await east.aio.watch(frame)
        taken = threading.Event()
        watch = arrivals._watch
        wait = watch._wait

        def late(stop, timeout, most):
            told = wait(stop, timeout, most)
            taken.set()
            stopped.wait(60)
            return told

        stopped = threading.Event()
        watch._wait = late
        waits = asyncio.ensure_future(arrivals.wait(60))
        await east.aio.tell(frame, "first")
        await asyncio.to_thread(taken.wait, 60)
        waits.cancel()
        await asyncio.sleep(0)  # the cancellation is there before the call has returned
        stopped.set()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await east.aio.tell(frame, "second")
        assert [each.message for each in await arrivals.wait(60)] == [b"first"]
        assert [each.message for each in await arrivals.wait(60)] == [b"second"]

    asyncio.run(main())


def test_many_that_wait_for_arrivals_keep_nothing_else_waiting(east, frame):
    async def main():
        watches = [await east.aio.watch(frame) for _ in range(70)]
        waiting = [asyncio.ensure_future(each.wait()) for each in watches]
        await asyncio.sleep(0)
        await asyncio.wait_for(east.aio.ping(), 60)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_bad_input(east, west, frame):
    with pytest.raises(onecopy.FailedPrecondition, match="NOT_WATCHED"):
        west.tell(f"east:{frame}", "nobody listens")
    with pytest.raises(onecopy.FailedPrecondition, match="NOT_WATCHED"):
        fill(west, f"east:{frame}@0+70000", 70_000, message="nobody listens")
    with east.watch(frame) as arrivals:
        for text in ("", "x" * 4097):
            with pytest.raises(onecopy.InvalidArgument):
                west.tell(f"east:{frame}", text)
        with pytest.raises(onecopy.InvalidArgument):
            fill(west, f"east:{frame}@0+70000", 70_000, message=b"x" * 4097)
        for wrong in (7, None, ["text"]):
            with pytest.raises(onecopy.InvalidArgument, match="a message is a"):
                west.tell(f"east:{frame}", wrong)
        for wrong in (0, -1, 2**64):
            with pytest.raises(onecopy.InvalidArgument):
                arrivals.poll(wrong)
        for wrong in (-1, float("nan"), "soon"):
            with pytest.raises((onecopy.InvalidArgument, TypeError)):
                arrivals.wait(wrong)
        assert arrivals.poll() == []
    with pytest.raises(onecopy.FailedPrecondition):
        arrivals.poll()  # closed
    with pytest.raises(onecopy.InvalidArgument):
        west.tell("east:frame@0+5", "a range")
    with pytest.raises(onecopy.NotFound):
        east.watch("nothing")
    with pytest.raises(onecopy.Unimplemented, match="NOT_SERVED"):
        east.watch("west:frame")

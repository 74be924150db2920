"""The same calls, awaited."""

import asyncio
import signal

import numpy
import pytest

import onecopy


def test_many_at_once(pair):
    async def run():
        node = await onecopy.aio.connect(pair.east.run_dir)
        sources = [await node.empty(10_000, "uint8") for _ in range(20)]
        targets = [await node.empty(10_000, "uint8") for _ in range(20)]
        for number, source in enumerate(sources):
            numpy.asarray(source)[...] = number
        done = await asyncio.gather(*(node.transfer(a, b) for a, b in zip(sources, targets, strict=True)))
        assert {each.state for each in done} == {"SUCCEEDED"}
        for number, target in enumerate(targets):
            assert (numpy.asarray(target) == number).all()
        assert (await node.explain(sources[0], targets[0])).path == "local"

    asyncio.run(run())


def test_failures_are_raised(pair):
    async def run():
        node = await onecopy.aio.connect(pair.east.run_dir)
        with pytest.raises(onecopy.NotFound):
            await node.transfer("aio-nothing", "aio-nowhere")

    asyncio.run(run())


def test_cancelling_the_task_cancels_the_transfer(daemon):
    async def run():
        node = await onecopy.aio.connect(daemon.run_dir)
        one, other = await node.empty(1 << 20, "uint8"), await node.empty(1 << 20, "uint8")
        daemon.signal(signal.SIGSTOP)
        moving = asyncio.create_task(node.transfer(one, other))
        await asyncio.sleep(0)  # it begins
        moving.cancel()
        asyncio.get_running_loop().call_soon(daemon.signal, signal.SIGCONT)
        with pytest.raises(asyncio.CancelledError):
            await moving
        assert all(each.ended for each in node.node.transfers())

    asyncio.run(run())


def test_progress_comes_on_the_loop(pair):
    async def run():
        node = await onecopy.aio.connect(pair.east.run_dir)
        one, other = await node.empty(8 << 20, "uint8"), await node.empty(8 << 20, "uint8")
        seen = []
        await node.transfer(one, other, progress=lambda now: seen.append(asyncio.get_running_loop()))
        await asyncio.sleep(0)
        assert set(seen) == {asyncio.get_running_loop()}

    asyncio.run(run())


def test_a_call_that_has_not_begun_never_does_once_its_task_is_cancelled(daemon):
    async def run():
        node = await onecopy.aio.connect(daemon.run_dir)
        one, other = await node.empty(1 << 20, "uint8"), await node.empty(1 << 20, "uint8")
        daemon.signal(signal.SIGSTOP)
        first = [asyncio.create_task(node.transfer(one, other)) for _ in range(64)]
        await asyncio.sleep(0)
        with pytest.raises(asyncio.TimeoutError):  # with no thread left for it, and a daemon that does not answer
            await asyncio.wait_for(node.transfer(one, other), 0.1)
        daemon.signal(signal.SIGCONT)
        await asyncio.gather(*first)
        assert len(node.node.transfers()) == 64

    asyncio.run(run())

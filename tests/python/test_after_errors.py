"""A call that fails keeps none of its arrays: they go as the caller drops them, not when Python next looks for cycles."""

import asyncio
import contextlib
import gc
import weakref

import numpy
import pytest

import onecopy

NOWHERE = "west:nothing-of-this-name"


class Kept(numpy.ndarray):
    """An array that can be watched."""


def array(values=1000):
    return numpy.ones(values, "uint8").view(Kept)


def raising(_):
    raise ValueError("enough")


def missing_file(folder):
    (folder / "short").write_bytes(b"x" * 10)
    return folder / "short"


CALLS = {
    "transfer": lambda node, made, folder: node.transfer(made, NOWHERE),
    "transfer into it": lambda node, made, folder: node.transfer(NOWHERE, made),
    "options": lambda node, made, folder: node.transfer(made, NOWHERE, checksum=True, deadline=60),
    "lists": lambda node, made, folder: node.transfer([made, array()], ["west:nothing@0+1000", NOWHERE]),
    "sizes": lambda node, made, folder: node.transfer(made, array(10)),
    "progress": lambda node, made, folder: node.transfer(made, node.empty(1000, "uint8"), progress=raising),
    "start": lambda node, made, folder: node.start(made, NOWHERE),
    "explain": lambda node, made, folder: node.explain(made, NOWHERE),
    "prepare": lambda node, made, folder: node.prepare(made, NOWHERE).run(),
    "enqueue": lambda node, made, folder: node.enqueue(made, NOWHERE).wait(),
    "register": lambda node, made, folder: node.register(made, "a name that cannot be"),
    "copy_from_file": lambda node, made, folder: node.copy_from_file(missing_file(folder), made),
    "copy_file_to_each": lambda node, made, folder: node.copy_file_to_each(missing_file(folder), [made, array()]),
    "broadcast": lambda node, made, folder: node.broadcast(made, [NOWHERE]),
    "copy_to_file": lambda node, made, folder: node.copy_to_file(made, folder / "no" / "folder"),
    "save": lambda node, made, folder: node.save(folder / "no" / "folder.npy", made),
    "load": lambda node, made, folder: node.load(missing_file(folder), format="npy"),
}


@contextlib.contextmanager
def without_collector():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("ours", [False, True], ids=["numpy", "ours"])
def test_a_call_that_fails(east, folder, name, ours):
    call = CALLS[name]
    with contextlib.suppress(onecopy.Error, ValueError):
        call(east, array(), folder)  # imports, and pools of threads, are made now
    made = east.empty(1000, "uint8") if ours else array()
    gone = weakref.ref(made._memory if ours else made)
    with without_collector():
        failed = False
        try:
            call(east, numpy.asarray(made) if ours else made, folder)
        except (onecopy.Error, ValueError):
            failed = True
        assert failed
        del made
        kept = gone() is not None  # by itself: an assertion would show it, and keep it
    assert not kept


@pytest.mark.parametrize("call", [lambda node, made, folder: node.aio.transfer(made, NOWHERE),
                                  lambda node, made, folder: node.aio.save(folder / "no" / "folder.npy", made)],
                         ids=["transfer", "save"])
def test_a_call_of_asyncio_that_fails(east, folder, call):
    async def run():
        with contextlib.suppress(onecopy.Error):
            await call(east, array(), folder)
        made = array()
        gone = weakref.ref(made)
        with without_collector():
            failed = False
            try:
                await call(east, made, folder)
            except onecopy.Error:
                failed = True
            del made
            for _ in range(100):  # the loop, and the thread that made the call, drop what they had
                await asyncio.sleep(0.01)
                if gone() is None:
                    break
            return failed, gone() is not None

    assert asyncio.run(run()) == (True, False)

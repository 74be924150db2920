"""What a signal's handler raises while an array's registration ends is raised after that, and the registration has ended."""

import gc
import signal
import weakref

import numpy
import pytest

import onecopy
from onecopy import _native
from onecopy.core.memory import _shared


class Stop(Exception):
    """Of a handler that is not Python's own."""


@pytest.fixture
def interrupted(east, monkeypatch):
    """A function that makes `times` signals come while a registration is being ended, and returns the ids of those that
    ended."""
    ended = []
    delete = east._registrations._delete
    left = 0

    def interrupt_and_delete(id, force):
        nonlocal left
        if left > 0:
            left -= 1
            signal.raise_signal(signal.SIGINT)
        delete(id, force)
        ended.append(id)

    monkeypatch.setattr(east._registrations, "_delete", interrupt_and_delete)

    def prepare(times):
        nonlocal left
        left = times
        return ended

    return prepare


def raise_stop(*_):
    raise Stop


@pytest.mark.parametrize(("handler", "raised"), [(signal.default_int_handler, KeyboardInterrupt), (raise_stop, Stop)])
@pytest.mark.parametrize("times", [1, 3])
def test_an_owner_that_goes(east, interrupted, handler, raised, times):
    before = signal.signal(signal.SIGINT, handler)
    try:
        array = numpy.ones(1000)
        id = east.register(array).id
        count = len(east._registrations)
        ended = interrupted(times)
        with pytest.raises(raised):
            del array
            for _ in range(100):  # the program goes on, and is told
                pass
        assert ended == [id]
        assert len(east._registrations) == count - 1
        assert id not in {each.id for each in east.buffers()}
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_temporary_of_a_transfer(east, interrupted):
    there = east.empty(1000, "float64")
    ended = interrupted(1)
    with pytest.raises(KeyboardInterrupt):
        east.transfer(numpy.ones(1000), there)
        for _ in range(100):
            pass
    assert len(ended) == 1
    assert ended[0] not in {each.id for each in east.buffers()}
    assert (numpy.asarray(there) == 1).all()


def test_memory_that_cannot_be_watched(east, interrupted):
    there = east.empty(1000, "uint8")
    ended = interrupted(1)
    with pytest.raises(KeyboardInterrupt):
        east.transfer(bytearray(1000), there)
        for _ in range(100):
            pass
    assert len(ended) == 1
    assert ended[0] not in {each.id for each in east.buffers()}


def test_shared_memory_that_goes(east, monkeypatch):
    array = east.empty(1000)
    start, forget = array._memory.address, _shared._forget
    calls = []

    def interrupt_and_forget(address):
        calls.append(address)
        if calls.count(start) == 1 and address == start:
            signal.raise_signal(signal.SIGINT)
        forget(address)

    monkeypatch.setattr(_shared, "_forget", interrupt_and_forget)
    with pytest.raises(KeyboardInterrupt):
        del array
        for _ in range(100):
            pass
    assert calls.count(start) == 2  # other memory may go meanwhile
    assert start not in _shared._blocks
    assert start not in _shared._starts


def test_a_callback_that_fails_each_time_is_reported(monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda failure: reported.append(str(failure.exc_value)))

    class Owner:
        pass

    def fail(_):
        raise ValueError("always")

    owner = Owner()
    kept = weakref.ref(owner, _native.Undisturbed(fail))
    del owner
    assert kept() is None
    assert reported == ["always"]


def test_a_cycle_through_a_callback_is_collected():
    class Owner:
        pass

    owner = Owner()
    owner.callback = _native.Undisturbed(lambda: owner)
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_an_interrupt_of_an_array_that_is_looked_at(east):
    """An array whose own code is interrupted."""
    class Array:
        __dlpack_c_exchange_api__ = property(lambda self: None)

        def __dlpack__(self, **_):
            raise KeyboardInterrupt

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(KeyboardInterrupt):
        east.transfer(Array(), east.empty(10))
    assert isinstance(east, onecopy.Node)

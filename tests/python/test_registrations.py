"""How memory of GPUs is found again, without one: by what the driver says of it."""

import gc
import threading

import pytest

import onecopy
from onecopy.core.memory import _arrays, _registrations
from onecopy.core.values._values import Buffer

MIB = 1 << 20


class Array:
    """Some memory at an address."""

    def __init__(self, address, size, device=_arrays.CUDA):
        self.found = _arrays.View(address, 1, (size,), (1,), (device, 0), False, "dlpack", None)


class Driver:
    """Allocations, and what was registered of them."""

    def __init__(self, most=100):
        self.allocations = {}  # by start: bytes and number
        self.mapped = set()  # starts of those that go on from the one before
        self.registered = {}  # by id: start and bytes
        self.session = 1
        self.calls = []  # how many pieces each had
        self.refused = set()  # starts of what cannot be registered
        self.in_use = set()  # ids of what is not ended without force
        self.asked = 0
        self._last = 0
        self.registrations = _registrations.Registrations(
            self._register, self._delete, lambda: self.session, self._allocation, most)

    def allocate(self, start, size):
        self._last += 1
        self.allocations[start] = (size, self._last)

    def find(self, array):
        return self.registrations.find(array, array.found)

    def find_all(self, arrays, **more):
        found = self.registrations.find_all([(each, each.found) for each in arrays], **more)
        assert [each.owner for each in found] == list(arrays)
        return [each.registration for each in found]

    def _allocation(self, address, bytes):
        self.asked += 1
        for start, (size, number) in self.allocations.items():
            if start <= address < start + size:
                while address + bytes > start + size and start + size in self.mapped:  # right behind
                    more, behind = self.allocations[start + size]
                    size, number = size + more, number * 1000 + behind
                return start, size, number
        return None

    def _register(self, pieces):
        self.calls.append(len(pieces))
        return [self._make(*each) for each in pieces]

    def _make(self, name, start, size, on_gpu, writable):
        assert writable
        if start in self.refused:
            return onecopy.FailedPrecondition("it cannot be shared", "NOT_SHAREABLE")
        self._last += 1
        id = f"b{self._last}"
        self.registered[id] = (start, size)
        return Buffer("east", name or id, id, "cuda" if on_gpu else "host", "", size, "0@east", True, None, 0)

    def _delete(self, id, force):
        if id in self.in_use and not force:
            raise onecopy.FailedPrecondition("a transfer uses it", "IN_USE")
        self.registered.pop(id, None)


@pytest.fixture
def driver():
    return Driver()


def test_arrays_of_one_allocation_share_its_registration(driver):
    driver.allocate(16 * MIB, 20 * MIB)
    arrays = [Array(16 * MIB + at * MIB, MIB) for at in range(20)]
    found = {driver.find(each).buffer.id for each in arrays}
    assert len(found) == 1
    assert list(driver.registered.values()) == [(16 * MIB, 20 * MIB)]
    assert driver.find(arrays[3]).start == 16 * MIB


def test_it_ends_with_the_last_of_them(driver):
    driver.allocate(0, 20 * MIB)
    one, other = Array(0, MIB), Array(MIB, MIB)
    driver.find(one)
    driver.find(other)
    driver.find(one)
    del one
    gc.collect()
    assert len(driver.registered) == 1
    del other
    gc.collect()
    assert not driver.registered
    assert len(driver.registrations) == 0


def test_another_allocation_at_the_same_address_is_another_one(driver):
    driver.allocate(0, 2 * MIB)
    kept = Array(0, MIB)  # an owner that outlives its memory
    first = driver.find(kept).buffer.id
    driver.allocate(0, 2 * MIB)
    assert driver.find(kept).buffer.id != first


def test_what_goes_beyond_an_allocation_is_registered_as_it_is(driver):
    driver.allocate(0, 2 * MIB)
    array = Array(MIB, 4 * MIB)
    made = driver.find(array)
    assert (made.start, made.bytes) == (MIB, 4 * MIB)
    unknown = Array(100 * MIB, MIB)
    assert driver.find(unknown).bytes == MIB


def test_what_lies_in_several_allocations_is_registered_with_all_of_them(driver):
    for at in range(0, 60, 20):
        driver.allocate(at * MIB, 20 * MIB)
        driver.mapped.add(at * MIB)
    one, other = Array(19 * MIB, 2 * MIB), Array(25 * MIB, MIB)
    made = driver.find(one)
    assert (made.start, made.bytes) == (0, 40 * MIB)
    assert driver.find(one) is made
    assert driver.find(Array(18 * MIB, 10 * MIB)) is made
    assert (driver.find(other).start, driver.find(other).bytes) == (20 * MIB, 20 * MIB)
    driver.allocate(20 * MIB, 20 * MIB)  # mapped anew, at the same address
    assert driver.find(one) is not made


def test_forgetting_an_array_ends_it_for_all_and_they_come_again(driver):
    driver.allocate(0, 4 * MIB)
    one, other = Array(0, MIB), Array(MIB, MIB)
    first = driver.find(one).buffer.id
    driver.find(other)
    assert driver.registrations.forget(other)
    assert not driver.registered
    assert driver.find(one).buffer.id != first


def test_the_daemon_of_now_is_asked_again(driver):
    driver.allocate(0, 4 * MIB)
    array = Array(0, MIB)
    first = driver.find(array).buffer.id
    driver.session = 2
    assert driver.find(array).buffer.id != first
    assert len(driver.registrations) == 1


def test_the_oldest_makes_room():
    driver = Driver(most=2)
    arrays = [Array(at * 10 * MIB, MIB) for at in range(3)]
    for at in range(3):
        driver.allocate(at * 10 * MIB, MIB)
        driver.find(arrays[at])
    assert [start for start, _ in driver.registered.values()] == [10 * MIB, 20 * MIB]


def test_memory_of_the_host_has_no_allocation(driver):
    driver.allocate(0, 4 * MIB)
    array = Array(MIB, MIB, _arrays.CPU)
    assert driver.find(array).bytes == MIB


def test_many_at_once_are_one_call_and_a_question_an_allocation(driver):
    arrays = []
    for at in range(0, 100, 20):
        driver.allocate(at * MIB, 20 * MIB)
        arrays += [Array((at + piece) * MIB, MIB) for piece in range(20)]
    found = driver.find_all(arrays[::-1])
    assert (driver.calls, driver.asked) == ([5], 5)
    assert [each.start for each in found] == [at * MIB for at in range(80, -20, -20) for _ in range(20)]
    before = set()
    assert driver.find_all(arrays, before=before) == found[::-1]
    assert driver.calls == [5]
    assert before == set(driver.registered)
    del found, arrays
    gc.collect()
    assert not driver.registered


def test_many_at_once_each_with_its_own_memory(driver):
    arrays = [Array(at * MIB, MIB, _arrays.CPU) for at in range(1000)]
    found = driver.find_all(arrays + arrays)
    assert (driver.calls, driver.asked, len(driver.registered)) == ([1000], 0, 1000)
    assert found[:1000] == found[1000:]
    del arrays[:500]
    gc.collect()
    assert len(driver.registered) == 500


def test_one_of_many_that_fails_is_told_and_the_others_stay(driver):
    arrays = [Array(at * MIB, MIB, _arrays.CPU) for at in range(3)]
    driver.refused.add(MIB)
    with pytest.raises(onecopy.FailedPrecondition):
        driver.find_all(arrays)
    assert [start for start, _ in driver.registered.values()] == [0, 2 * MIB]
    driver.refused.clear()
    driver.find_all(arrays)
    assert driver.calls == [3, 1]


def test_what_many_at_once_need_does_not_make_room_for_the_others():
    driver = Driver(most=2)
    old = Array(100 * MIB, MIB, _arrays.CPU)
    driver.find(old)
    arrays = [Array(at * MIB, MIB, _arrays.CPU) for at in range(3)]
    driver.find_all(arrays)
    assert sorted(start for start, _ in driver.registered.values()) == [0, MIB, 2 * MIB]


def test_what_ends_is_told_once_no_lock_is_held(driver):
    """Who hears of it may wait for another thread, which takes this lock."""
    registrations = driver.registrations
    driver.allocate(0, MIB)
    array = Array(0, MIB)
    made = driver.find(array)
    told = []

    def on_end(gone):
        other = threading.Thread(target=registrations.pin, args=(made,))
        other.start()
        other.join(60)
        told.append((gone, other.is_alive()))

    registrations.on_end = on_end
    registrations.forget(array)
    assert told == [(made, False)]


def host(start, size):
    return Array(start, size, _arrays.CPU).found


def test_memory_that_an_owner_has_left_is_ended_unless_it_is_in_use(driver):
    owner = Array(0, MIB, _arrays.CPU)
    first = driver.find(owner)
    driver.in_use.add(first.buffer.id)
    owner.found = host(8 * MIB, MIB)  # the other one of two buffers
    second = driver.find(owner)
    driver.registrations.pin(second)
    owner.found = host(0, MIB)
    assert driver.find(owner) is first
    assert set(driver.registered) == {first.buffer.id, second.buffer.id}
    driver.in_use.clear()
    driver.registrations.unpin(second)
    owner.found = host(16 * MIB, MIB)
    third = driver.find(owner)
    assert set(driver.registered) == {third.buffer.id}
    del owner
    gc.collect()
    assert not driver.registered


def test_memory_that_only_shrank_stays_registered(driver):
    owner = Array(0, 2 * MIB, _arrays.CPU)
    whole = driver.find(owner)
    owner.found = host(0, MIB)
    assert driver.find(owner) is not whole
    assert whole.buffer.id in driver.registered
    del owner
    gc.collect()
    assert not driver.registered

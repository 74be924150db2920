"""What arrives means what has left: types, byte orders, shapes, masks and units; lists, mappings, and nothing at all."""

import array
import datetime

import numpy
import pytest

import onecopy


@pytest.mark.parametrize(("source", "destination"), [
    (">i4", "<i4"), ("<i4", "<u4"), ("<i4", "<f4"), ("<f4", "<f8"), ("<M8[s]", "<M8[ms]"), ("<M8[s]", "<i8"),
    ("<c8", "<f4"), ("bool", "uint8"), ("S4", "<i4"),
])
def test_elements_of_unlike_types_are_refused(east, source, destination):
    one = numpy.zeros(8, source)
    other = numpy.zeros(8 * one.itemsize // numpy.dtype(destination).itemsize, destination)
    with pytest.raises(onecopy.InvalidArgument, match="type") as failure:
        east.transfer(one, other)
    assert failure.value.reason == "TYPE_MISMATCH" and "as_bytes" in failure.value.remedy
    assert east.transfer(one, other, as_bytes=True).state == "SUCCEEDED"
    with pytest.raises(onecopy.InvalidArgument):
        east.prepare(one, other)
    with pytest.raises(onecopy.InvalidArgument):
        east.explain(one, other)
    assert east.start(one, other, as_bytes=True).wait().state == "SUCCEEDED"


@pytest.mark.parametrize("dtype", [">i4", "<M8[s]", "<c16", "<U3", "float16", "bool", [("a", "<i4"), ("b", "<f4")]])
def test_elements_of_one_type_go(east, dtype):
    one, other = numpy.zeros(8, dtype), numpy.ones(8, dtype)
    east.transfer(one, other)
    assert (one == other).all()


def test_structures_with_other_fields_are_refused(east):
    one, other = numpy.zeros(8, [("a", "<i4"), ("b", "<f4")]), numpy.zeros(8, [("b", "<f4"), ("a", "<i4")])
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.transfer(one, other)
    assert failure.value.reason == "TYPE_MISMATCH"


def test_a_second_look_finds_another_type(east):
    """Transfers that are known by their memory are known by their types as well."""
    one, other = numpy.asarray(east.empty(8, "int32")), numpy.asarray(east.empty(8, "int32"))
    for _ in range(3):
        east.transfer(one, other)
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(one.view("float32"), other)
    with pytest.raises(onecopy.InvalidArgument, match="mask"):
        east.transfer(numpy.ma.masked_array(one), other)


def test_plain_bytes_go_with_everything(east):
    numbers = numpy.arange(4, dtype="int32")
    data = bytearray(16)
    east.transfer(numbers, data)
    assert bytes(data) == numbers.tobytes()
    east.transfer(b"\0" * 16, numbers)
    assert not numbers.any()
    east.transfer(array.array("i", [1, 2, 3, 4]), numbers)
    assert list(numbers) == [1, 2, 3, 4]
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(array.array("f", [1, 2, 3, 4]), numbers)


def test_masks_and_units_are_refused_by_name(east, folder):
    masked = numpy.ma.masked_array([1.0, 2.0], mask=[0, 1])
    for call in (lambda: east.transfer(masked, numpy.zeros(2)), lambda: east.transfer(numpy.zeros(2), masked),
                 lambda: east.register(masked, "masked"), lambda: east.save(folder / "m.npy", masked),
                 lambda: east.save(folder / "m.safetensors", {"m": masked}), lambda: east.transfer([masked], [masked])):
        with pytest.raises(onecopy.InvalidArgument, match="mask"):
            call()

    class Quantity(numpy.ndarray):
        unit = "m"

    metres = numpy.zeros(2).view(Quantity)
    with pytest.raises(onecopy.InvalidArgument, match="units"):
        east.transfer(metres, numpy.zeros(2))
    with pytest.raises(onecopy.InvalidArgument, match="objects"):
        east.transfer(numpy.array([datetime.date(2026, 1, 1)]), numpy.zeros(1))


def test_shapes_agree_or_one_is_flat(east):
    with pytest.raises(onecopy.InvalidArgument, match="shapes"):
        east.transfer(numpy.zeros((2, 3)), numpy.zeros((3, 2)))
    east.transfer(numpy.zeros((2, 3)), numpy.zeros(6))
    east.transfer(numpy.zeros((2, 3)), numpy.zeros((1, 2, 3)))
    east.transfer(numpy.zeros((2, 3)), numpy.zeros((3, 2)), as_bytes=True)


def test_two_lists_that_disagree_say_where(east):
    sources = [numpy.zeros((2, 3)) for _ in range(5)]
    targets = [numpy.zeros((2, 3)) for _ in range(5)]
    targets[3] = numpy.zeros((2, 4))
    with pytest.raises(onecopy.InvalidArgument, match=r"source 3, float64\[2, 3\].*destination 3, float64\[2, 4\]"):
        east.transfer(sources, targets)
    targets[3] = numpy.zeros((2, 3), "float32")
    with pytest.raises(onecopy.InvalidArgument, match="source 3"):
        east.transfer(sources, targets)
    with pytest.raises(onecopy.InvalidArgument, match="5 sources have 4"):
        east.transfer(sources, targets[:4])


def test_mappings_go_by_their_keys(east):
    state = {"w": numpy.arange(6.0).reshape(2, 3), "b": numpy.ones(3)}
    room = {"b": numpy.zeros(3), "w": numpy.zeros((2, 3))}
    done = east.transfer(state, room)
    assert done.bytes == 72 and (room["w"] == state["w"]).all() and (room["b"] == 1).all()
    with pytest.raises(onecopy.InvalidArgument, match="'c' has no source"):
        east.transfer(state, {**room, "c": numpy.zeros(1)})
    with pytest.raises(onecopy.InvalidArgument, match="'b' has no destination"):
        east.transfer(state, {"w": room["w"]})
    with pytest.raises(onecopy.InvalidArgument, match="source 'w'"):
        east.transfer(state, {"b": numpy.zeros(3), "w": numpy.zeros((2, 4))})
    with pytest.raises(onecopy.InvalidArgument, match="mapping"):
        east.transfer(state, list(room.values()))


def test_tied_weights_move_once(east):
    tied, room = numpy.arange(5.0), numpy.zeros(5)
    done = east.transfer([tied, tied], [room, room])
    assert done.bytes == 40 and (room == tied).all()
    done = east.transfer({"embed": tied, "head": tied}, {"embed": room, "head": room})
    assert done.bytes == 40
    with pytest.raises(onecopy.InvalidArgument) as failure:  # two sources for one place are a mistake
        east.transfer([tied, numpy.ones(5)], [room, room])
    assert failure.value.reason == "RANGES_OVERLAP"


def test_nothing_to_move_has_succeeded(east):
    nothing, empty = [], [numpy.zeros(0), numpy.zeros((3, 0))]
    for ends in (nothing, empty, {}, ()):
        done = east.transfer(ends, ends)
        assert (done.state, done.bytes, done.id, done.ended) == ("SUCCEEDED", 0, "", True)
        assert done.receipt.copies == 0 and str(done) and done.refresh() is done and done.wait() is done
        assert east.transfer(ends, ends, checksum=True).state == "SUCCEEDED"
        assert east.start(ends, ends).wait().state == "SUCCEEDED"
        assert east.prepare(ends, ends).run().state == "SUCCEEDED"
        queued = east.enqueue(ends, ends)
        assert queued.done and queued.wait().state == "SUCCEEDED"
    with pytest.raises(onecopy.InvalidArgument, match="nothing to move"):
        east.explain([], [])


def test_names_have_types_and_shapes_as_well(east, west):
    numbers = numpy.arange(6, dtype=">i4").reshape(2, 3)
    west.register(numbers, "big")
    named = east.buffer("big", "west")
    assert (named.dtype, named.shape) == (">i4", (2, 3))
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.transfer(named, numpy.zeros((2, 3), "<i4"))
    assert failure.value.reason == "TYPE_MISMATCH"
    with pytest.raises(onecopy.InvalidArgument):
        east.transfer(named, numpy.zeros((3, 2), ">i4"))
    got = numpy.zeros((2, 3), ">i4")
    east.transfer(named, got)
    assert (got == numbers).all()
    west.unregister(numbers)

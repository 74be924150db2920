"""Several arrays at once: one transfer of many buffers."""

import gc

import numpy
import pytest

import onecopy
from onecopy.core.memory import _registrations


def pattern(count, dtype="uint8", seed=1):
    return ((numpy.arange(count) * 7 + seed) % 119).astype(dtype)


def ids(node):
    return {each.id for each in node.buffers()}


def test_a_state_dict_goes_to_another_node_by_one_transfer(east, west):
    names = [f"layer.{number}" for number in range(40)]
    ours = {name: pattern(1000 + 7 * number, "float32", number) for number, name in enumerate(names)}
    theirs = {name: west.empty(ours[name].shape, "float32") for name in names}
    before = [each.id for each in east.transfers()[:1]]  # the newest; a node keeps a thousand
    done = east.transfer([ours[name] for name in names], [theirs[name].buffer for name in names], checksum=True)
    for name in names:
        assert (numpy.asarray(theirs[name]) == ours[name]).all(), name
    assert [each.id for each in east.transfers()[:2]] == [done.id, *before]
    assert done.bytes == sum(each.nbytes for each in ours.values())
    assert done.receipt.checksum.verified
    assert "and 39 more" in str(done)


def test_ends_of_every_kind_in_one_list(east):
    shared, made = east.empty((8, 8), "int32"), east.create("many-made", 4096)
    numpy.asarray(shared)[...] = numpy.arange(64).reshape(8, 8)
    plain, part = numpy.zeros((8, 4), "int32"), numpy.zeros(16, "uint8")
    back = numpy.zeros(64, "uint8")
    east.transfer([numpy.asarray(shared)[:, ::2], pattern(64)], [plain, f"{made.name}@128+64"])
    assert (plain == numpy.asarray(shared)[:, ::2]).all()
    east.transfer([made[128:144], f"{made.name}@128+64"], [part, back])
    assert (part == pattern(64)[:16]).all()
    assert (back == pattern(64)).all()
    east.delete(made)


def test_slices_of_one_array_are_one_buffer(east):
    whole, targets = pattern(10_000), [east.empty(100, "uint8") for _ in range(20)]
    before = ids(east)
    done = east.transfer([whole[at:at + 100] for at in range(0, 10_000, 500)], targets)
    assert len(ids(east) - before) == 1
    for number, target in enumerate(targets):
        assert (numpy.asarray(target) == whole[number * 500:number * 500 + 100]).all()
    assert done.bytes == 2000


def test_more_ranges_than_one_array_may_have_pieces(east):
    """What one request takes: 131,072."""
    ours, target = pattern(1 << 19), east.empty(1 << 19, "uint8")
    count = 100_000
    sources = [ours[4 * number:4 * number + 3] for number in range(count)]
    whole = numpy.asarray(target)
    done = east.transfer(sources, [whole[4 * (count - number):4 * (count - number) + 3] for number in range(count)])
    assert done.bytes == 3 * count
    for number in (0, 1, count // 2, count - 1):
        assert (whole[4 * (count - number):4 * (count - number) + 3] == sources[number]).all()


def test_what_has_no_elements_is_left_out(east):
    ours, target = pattern(100), numpy.zeros(100, "uint8")
    done = east.transfer([numpy.zeros((0, 4)), ours], [east.empty((0, 4), "float64"), target])
    assert done.bytes == 100
    assert (target == ours).all()


@pytest.mark.parametrize(("sources", "destinations", "reason", "says"), [
    ([pattern(8)], pattern(8), "BAD_ARGUMENT", "two lists"),
    ([pattern(8), pattern(8)], [pattern(8)], "SIZE_MISMATCH", "2 sources"),
    ([pattern(8)], [pattern(9)], "SIZE_MISMATCH", "8 bytes"),
    (["one", pattern(8)], ["other", pattern(8)], "BAD_SIZE", "source 0"),
])
def test_refused(east, sources, destinations, reason, says):
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.transfer(sources, destinations)
    assert failure.value.reason == reason
    assert says in str(failure.value)


def test_destinations_of_two_nodes_are_refused(east, west):
    there, here = west.empty(8, "uint8"), east.empty(8, "uint8")
    with pytest.raises(onecopy.InvalidArgument) as failure:
        east.transfer([pattern(8), pattern(8)], [there.buffer, here.buffer])
    assert failure.value.reason == "BAD_ENDPOINT"


def test_ranges_beside_lists_are_refused(east):
    with pytest.raises(onecopy.InvalidArgument, match="cannot be combined with ranges="):
        east.transfer([pattern(8)], [pattern(8)], ranges=[((0, 4), (0, 4))])


def test_what_was_pinned_makes_no_room(pair):
    node = onecopy.connect(pair.east.run_dir)
    node._registrations._most = 2
    kept, shared = [pattern(100, seed=i) for i in range(5)], node.empty(100, "uint8")
    registration = node._requests.place(kept[0], "the source", written=False).registration
    node._registrations.pin(registration)
    for ours in kept[1:]:
        node.transfer(ours, shared)
    assert node.buffer(registration.buffer.id).bytes == 100
    assert len(node._registrations) == 2
    node._registrations.unpin(registration, end=True)
    with pytest.raises(onecopy.NotFound):
        node.buffer(registration.buffer.id)
    node.transfer(kept[0], shared)
    assert (numpy.asarray(shared) == kept[0]).all()


def test_two_that_pinned_it_both_have_to_let_go(east):
    ours = pattern(100)
    registration = east._requests.place(ours, "the source", written=False).registration
    for _ in range(2):
        east._registrations.pin(registration)
    east._registrations.unpin(registration, end=True)
    assert east.buffer(registration.buffer.id)
    east._registrations.unpin(registration, end=True)
    with pytest.raises(onecopy.NotFound):
        east.buffer(registration.buffer.id)


def test_lists_move_again_after_a_restart(daemon):
    node = onecopy.connect(daemon.run_dir)
    ours = [pattern(100), pattern(200)]
    targets = [numpy.zeros_like(each) for each in ours]
    node.transfer(ours, targets)
    daemon.kill()
    daemon.start_again()
    for each in targets:
        each[...] = 0
    node.transfer(ours, targets)
    assert all((one == other).all() for one, other in zip(ours, targets, strict=True))


class TestTorch:
    """Tensors belong to their storage."""

    def test_all_that_share_a_storage_share_a_registration(self, east):
        torch = pytest.importorskip("torch")
        ours, shared = torch.arange(1000, dtype=torch.int32), east.empty(10, "int32")
        before = ids(east)
        for each in (ours[:10], ours.detach()[10:20], torch.nn.Parameter(ours.float()).data[:0], ours.numpy()[20:30],
                     ours.view(10, 100)[3, :10]):
            if len(each):
                east.transfer(each, shared)
                assert (numpy.asarray(shared) == numpy.asarray(each)).all()
        assert len(ids(east) - before) == 1
        kept = ours.detach()[5:15]
        del ours, each
        gc.collect()
        assert len(ids(east) - before) == 1
        east.transfer(kept, shared)
        assert numpy.asarray(shared)[0] == 5
        del kept
        gc.collect()
        assert not ids(east) - before

    def test_what_owns_it(self):
        torch = pytest.importorskip("torch")
        ours = torch.zeros(10)
        storage = ours.untyped_storage()
        for each in (ours, ours[2:], ours.detach(), ours.numpy(), ours[3:].numpy()[1:]):
            assert _registrations.owner_of(each) is storage

    def test_a_storage_that_was_resized_is_another_memory(self, east):
        torch = pytest.importorskip("torch")
        ours, shared = torch.full((10,), 3, dtype=torch.uint8), east.empty(10, "uint8")
        east.transfer(ours, shared)
        ours.resize_(1 << 20)
        ours[:10] = 4
        east.transfer(ours[:10], shared)
        assert (numpy.asarray(shared) == 4).all()


class Resizable:
    """As a tensor of torch whose storage gets other memory."""

    def __init__(self, size):
        self.memory = pattern(size)

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


def test_memory_that_was_resized_leaves_no_registration_behind(east):
    """What was its memory may be anything else's by then."""
    ours, shared = Resizable(1000), east.empty(1000, "uint8")
    before = ids(east)
    east.transfer(ours, shared)
    (old,) = ids(east) - before
    was, ours.memory = ours.memory, pattern(2000, seed=2)
    east.transfer(ours, east.empty(2000, "uint8"))
    now = ids(east) - before
    assert len(now) == 1
    assert old not in now
    ours.memory = was
    east.transfer(ours, shared)
    assert (numpy.asarray(shared) == was).all()
    assert len(ids(east) - before) == 1
    assert not (ids(east) - before) & now
    del ours
    gc.collect()
    assert not ids(east) - before


def test_both_lists_have_room(pair):
    """Neither makes room for the other, however few registrations a node keeps."""
    node = onecopy.connect(pair.east.run_dir)
    node._registrations._most = 8
    sources = [pattern(1000, seed=number) for number in range(6)]
    destinations = [numpy.zeros(1000, "uint8") for _ in sources]
    node.transfer(sources, destinations)
    for source, destination in zip(sources, destinations, strict=True):
        assert (source == destination).all()

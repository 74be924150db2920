"""Blocks of layouts, which move by their numbers."""

import array
import asyncio
import time

import numpy
import pytest

import onecopy

BLOCK = 48


def cache(blocks=16, seed=3):
    return numpy.random.default_rng(seed).integers(0, 256, (blocks, BLOCK), dtype="uint8")


def test_blocks_of_arrays_move_by_their_numbers(east):
    source, target = cache(), numpy.zeros((8, BLOCK), "uint8")
    ours, theirs = east.layout(source), east.layout(target)
    assert (ours.block_bytes, ours.count, theirs.count) == (BLOCK, 16, 8)
    done = east.transfer(ours, theirs, source_blocks=[7, 15, 0], blocks=numpy.array([2, 0, 5]))
    assert done.bytes == 3 * BLOCK
    assert done.receipt.ranges == 3
    wanted = numpy.zeros_like(target)
    wanted[[2, 0, 5]] = source[[7, 15, 0]]
    assert (target == wanted).all()
    # Once more, with others, by the same layouts.
    east.transfer(ours, theirs, source_blocks=range(8), blocks=array.array("I", range(8))).receipt
    assert (target == source[:8]).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_numbers_of_all_kinds(east, dtype):
    source, target = cache(), numpy.zeros((16, BLOCK), "uint8")
    numbers = numpy.arange(32, dtype=dtype)[::-2]  # backwards, with gaps
    numbers = numbers // 2
    numbers.flags.writeable = False
    east.transfer(east.layout(source), east.layout(target), source_blocks=numbers[::-1], blocks=numbers)
    assert (target[::-1] == source).all()


def test_layers_are_a_list_of_arrays_or_lie_in_one(east):
    layers = [cache(seed=each) for each in range(3)]
    one = numpy.zeros((3, 16, BLOCK), "uint8")
    chosen, put = [3, 9], [1, 0]
    east.transfer(east.layout(layers), east.layout(one, BLOCK, 16, layers=3), source_blocks=chosen, blocks=put)
    for layer, each in zip(one, layers, strict=True):
        assert (layer[put] == each[chosen]).all()
        assert not layer[2:].any()
    mixed = numpy.zeros((16, 3, BLOCK), "uint8")  # block by block, each with its layers
    east.transfer(east.layout(layers),
                  east.layout(mixed, BLOCK, 16, stride=3 * BLOCK, layers=3, layer_stride=BLOCK), source_blocks=chosen, blocks=put)
    assert (mixed[put].swapaxes(0, 1) == one[:, put]).all()
    halves = numpy.zeros((2, 16, BLOCK), "uint8")  # keys and values, as vLLM has them
    east.transfer(east.layout(layers[:2]), east.layout([halves[0], halves[1]]), source_blocks=chosen, blocks=put)
    assert (halves == one[:2]).all()


def test_rows_with_gaps_between_them(east):
    wide = numpy.zeros((16, BLOCK + 16), "uint8")
    source = cache()
    east.transfer(east.layout(source), east.layout(wide[:, :BLOCK]), source_blocks=[4, 5], blocks=[15, 1])
    assert (wide[[15, 1], :BLOCK] == source[[4, 5]]).all()
    assert not wide[:, BLOCK:].any()


def test_buffers_of_another_node(pair, east, west):
    target, source = west.empty((8, BLOCK), "uint8", name="far"), cache()
    where = numpy.asarray(target)
    ours = east.layout(source)
    for end in ("west:far", onecopy.Endpoint("far", "west"), west.buffer("far")):
        where[:] = 0
        theirs = east.layout(end, BLOCK, 8)
        east.transfer(ours, theirs, source_blocks=[9, 3], blocks=[0, 7])
        assert (where[[0, 7]] == source[[9, 3]]).all()
    with pytest.raises(onecopy.NotFound):
        east.layout("west:nothing", BLOCK, 8)


def test_every_call_takes_them(east):
    source, target = cache(), numpy.zeros((16, BLOCK), "uint8")
    ours, theirs = east.layout(source), east.layout(target)
    chosen, put = numpy.array([3, 1]), numpy.array([0, 2])

    def moved():
        right = (target[[0, 2]] == source[[3, 1]]).all()
        target[:] = 0
        return right

    prepared = east.prepare(ours, theirs, source_blocks=chosen, blocks=put)
    chosen[:] = 5  # the call has its own copy
    prepared.run()
    assert moved()
    chosen[:] = 3, 1
    east.start(ours, theirs, source_blocks=chosen, blocks=put).wait()
    assert moved()
    asyncio.run(east.aio.transfer(ours, theirs, source_blocks=chosen, blocks=put))
    assert moved()
    assert east.explain(ours, theirs, source_blocks=chosen, blocks=put).copies >= 1
    assert not target.any()
    done = east.transfer(ours, theirs, source_blocks=chosen, blocks=put, checksum=True)
    assert done.receipt.checksum.verified
    assert moved()


def test_of_no_blocks_nothing_moves(east):
    target = numpy.zeros((16, BLOCK), "uint8")
    done = east.transfer(east.layout(cache()), east.layout(target), source_blocks=[], blocks=numpy.array([], "int64"))
    assert (done.state, done.bytes) == ("SUCCEEDED", 0)
    assert not target.any()


READ_ONLY = cache()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(("make", "error", "reason", "says"), [
    (lambda node: node.layout([]), "InvalidArgument", "BAD_ENDPOINT", "no buffer"),
    (lambda node: node.layout([], 8, 8), "InvalidArgument", "BAD_ENDPOINT", "no buffer"),
    (lambda node: node.layout("west:far"), "InvalidArgument", "BAD_ARGUMENT", "pass block_bytes="),
    (lambda node: node.layout(cache(), 48), "InvalidArgument", "BAD_ARGUMENT", "pass count="),
    (lambda node: node.layout(cache(), 0, 8), "InvalidArgument", "BAD_SIZE", "nothing in it"),
    (lambda node: node.layout(cache(), 48, 0), "InvalidArgument", "BAD_SIZE", "nothing in it"),
    (lambda node: node.layout(cache(), 48, 17), "OutOfRange", "RANGE_OUT_OF_BUFFER", "do not lie inside"),
    (lambda node: node.layout(cache(), 48, 16, offset=1), "OutOfRange", "RANGE_OUT_OF_BUFFER", "do not lie inside"),
    (lambda node: node.layout(cache(), 48, 9, layers=2), "OutOfRange", "RANGE_OUT_OF_BUFFER", "do not lie inside"),
    (lambda node: node.layout(cache(), 48, 2, stride=40), "InvalidArgument", "RANGES_OVERLAP", "overlap"),
    (lambda node: node.layout(cache(), 48, 2, stride=0), "InvalidArgument", "BAD_ARGUMENT", "cannot be 0"),
    (lambda node: node.layout(cache(), 48, 2, layers=2, layer_stride=90), "InvalidArgument", "RANGES_OVERLAP", "overlap"),
    (lambda node: node.layout(cache(), -1, 8), "InvalidArgument", "BAD_ARGUMENT", "-1"),
    (lambda node: node.layout(cache(), 48, 2.5), "InvalidArgument", "BAD_ARGUMENT", "2.5"),
    (lambda node: node.layout(cache(), 48, True), "InvalidArgument", "BAD_ARGUMENT", "True"),
    (lambda node: node.layout(cache(), 48, 2**63), "InvalidArgument", "BAD_ARGUMENT", "9223372036854775808"),
    (lambda node: node.layout(cache()[:, ::2]), "InvalidArgument", "BAD_ARGUMENT", "have gaps"),
    (lambda node: node.layout(cache()[:, :40], 8, 5), "InvalidArgument", "BAD_ARGUMENT", "array with gaps"),
    (lambda node: node.layout(cache()[:, :40], 40, 16), "InvalidArgument", "BAD_ARGUMENT", "40 bytes every 48"),
    (lambda node: node.layout([cache(), cache(8)]), "InvalidArgument", "SIZE_MISMATCH", "unlike rows"),
    (lambda node: node.layout([cache(), "nowhere:far@0+768"], 48, 16), "InvalidArgument", "BAD_ENDPOINT", "nowhere"),
    (lambda node: node.layout("west:/data/file@0+768", 48, 16), "InvalidArgument", "BAD_ENDPOINT", "names no buffer"),
    (lambda node: node.layout(numpy.zeros((0, 8))), "InvalidArgument", "BAD_SIZE", "no blocks"),
    (lambda node: node.layout(numpy.float32(1)), "InvalidArgument", "BAD_SIZE", "no blocks"),
    (lambda node: node.layout(3), "InvalidArgument", "BAD_ARGUMENT", "int"),
])
def test_what_is_no_layout_is_refused_when_it_is_made(east, make, error, reason, says):
    with pytest.raises(getattr(onecopy, error)) as refused:
        make(east)
    assert refused.value.reason == reason
    assert says in str(refused.value)


@pytest.mark.parametrize(("source_blocks", "blocks", "error", "reason", "says"), [
    ([16], [0], "OutOfRange", "RANGE_OUT_OF_BUFFER", "block 16, and its layout has blocks 0 to 15"),
    ([0, 1], [0, 16], "OutOfRange", "RANGE_OUT_OF_BUFFER", "number 1 of the destination's blocks"),
    ([-1], [0], "InvalidArgument", "BAD_ARGUMENT", "the number -1"),
    (numpy.array([0, -(2**63)]), [0, 1], "InvalidArgument", "BAD_ARGUMENT", "block 1 has the number -9223372036854775808"),
    ([2**63], [0], "InvalidArgument", "BAD_ARGUMENT", "are not block numbers"),
    (numpy.array([2**63], "uint64"), [0], "OutOfRange", "RANGE_OUT_OF_BUFFER", "9223372036854775808"),
    (numpy.array([2**64 - 1], "uint64"), [0], "OutOfRange", "RANGE_OUT_OF_BUFFER", "18446744073709551615"),
    ([0, 1], [0], "InvalidArgument", "SIZE_MISMATCH", "2 blocks of the source and 1"),
    ([], [0], "InvalidArgument", "SIZE_MISMATCH", "0 blocks of the source and 1"),
    ([0, 1], [3, 3], "InvalidArgument", "RANGES_OVERLAP", "destination ranges overlap"),
    ([[0]], [0], "InvalidArgument", "BAD_ARGUMENT", "are not block numbers"),
    ([0.5], [0], "InvalidArgument", "BAD_ARGUMENT", "are not block numbers"),
    (numpy.zeros((1, 2), "int64"), [0], "InvalidArgument", "BAD_ARGUMENT", "(1, 2)"),
    (numpy.int64(3), [0], "InvalidArgument", "BAD_ARGUMENT", "()"),
    (numpy.zeros(1), [0], "InvalidArgument", "TYPE_MISMATCH", "float64"),
    (numpy.zeros(1, "int16"), [0], "InvalidArgument", "TYPE_MISMATCH", "int16"),
    (numpy.zeros(1, ">i8"), [0], "InvalidArgument", "TYPE_MISMATCH", "int64, uint32"),
    (numpy.zeros(1, "bool"), [0], "InvalidArgument", "TYPE_MISMATCH", "bool"),
    (numpy.zeros(131_073, "int64"), numpy.zeros(131_073, "int64"), "InvalidArgument", "BAD_ARGUMENT", "131073 blocks"),
    ("7", [0], "InvalidArgument", "BAD_ARGUMENT", "str"),
    (None, [0], "InvalidArgument", "BAD_ARGUMENT", "source_blocks is missing"),
    ([0], None, "InvalidArgument", "BAD_ARGUMENT", "blocks is missing"),
    (None, None, "InvalidArgument", "BAD_ARGUMENT", "which blocks of the layouts move is not said"),
])
def test_what_names_no_blocks_is_refused_and_nothing_moves(east, source_blocks, blocks, error, reason, says):
    source, target = cache(), numpy.zeros((16, BLOCK), "uint8")
    ours, theirs = east.layout(source), east.layout(target)
    with pytest.raises(getattr(onecopy, error)) as refused:
        east.transfer(ours, theirs, source_blocks=source_blocks, blocks=blocks)
    assert refused.value.reason == reason
    assert says in str(refused.value)
    assert not target.any()
    east.transfer(ours, theirs, source_blocks=[1], blocks=[2])  # the layouts are as good as before
    assert (target[2] == source[1]).all()


def test_layouts_that_do_not_belong_together(pair, east, west):
    source, target = cache(), numpy.zeros((16, BLOCK), "uint8")
    ours, theirs = east.layout(source), east.layout(target)
    others = onecopy.connect(pair.east.run_dir)
    cases = [
        (ours, east.layout(target, 24, 32), "SIZE_MISMATCH", "blocks of 48 bytes, the destination's"),
        (ours, east.layout(target, 48, 8, layers=2), "SIZE_MISMATCH", "1 layers"),
        (ours, target, "BAD_ARGUMENT", "the destination is a ndarray"),
        ("west:far", theirs, "BAD_ARGUMENT", "the source is a str"),
        (others.layout(source), theirs, "BAD_ARGUMENT", "another connection"),
        (ours, west.layout(target), "BAD_ARGUMENT", "another connection"),
        (ours, east.layout(READ_ONLY), "BAD_ARGUMENT", "read-only"),
        (theirs, theirs, "RANGES_OVERLAP", "overlap"),
    ]
    for one, other, reason, says in cases:
        with pytest.raises(onecopy.InvalidArgument) as refused:
            east.transfer(one, other, source_blocks=[2], blocks=[2])
        assert refused.value.reason == reason
        assert says in str(refused.value)
    with pytest.raises(onecopy.InvalidArgument, match="both ranges and blocks"):
        east.transfer(ours, theirs, ranges=[((0, 8), (0, 8))], source_blocks=[2], blocks=[2])
    with pytest.raises(onecopy.InvalidArgument, match="blocks of the layouts"):
        east.transfer(ours, theirs, ranges=[((0, 8), (0, 8))])
    assert not target.any()


def test_a_layout_of_a_buffer_that_has_gone(east):
    east.create("gone", 16 * BLOCK)
    target = numpy.zeros((16, BLOCK), "uint8")
    before, ours = east.buffer("gone"), east.layout(east.buffer("gone"), BLOCK, 16)
    east.delete("gone")
    east.create("gone", 16 * BLOCK)  # another one of that name
    with pytest.raises(onecopy.NotFound) as refused:
        east.transfer(ours, east.layout(target), source_blocks=[1], blocks=[1])
    assert refused.value.reason == "BUFFER_NOT_FOUND"
    assert before.id in str(refused.value)
    east.delete("gone")


def test_a_layout_of_arrays_outlives_the_daemon(daemon):
    node = onecopy.connect(daemon.run_dir)
    source, target = cache(), numpy.zeros((16, BLOCK), "uint8")
    ours, theirs = node.layout(source), node.layout(target)
    prepared = node.prepare(ours, theirs, source_blocks=[3], blocks=[3])
    node.transfer(ours, theirs, source_blocks=[1], blocks=[1])
    daemon.kill()
    daemon.start_again()
    target[:] = 0
    node.transfer(ours, theirs, source_blocks=[1, 2], blocks=[2, 1])
    prepared.run()
    assert (target[[2, 1, 3]] == source[[1, 2, 3]]).all()


def test_blocks_cost_no_more_than_the_same_ranges(east):
    count = 50_000
    source, target = east.empty((count, 8), "uint8"), east.empty((count, 8), "uint8")
    chosen = numpy.random.default_rng(3).permutation(count)
    put = chosen[::-1].copy()
    pairs = [((int(one) * 8, 8), (int(other) * 8, 8)) for one, other in zip(chosen, put, strict=True)]
    ours, theirs = east.layout(source), east.layout(target)

    def seconds_of(call):
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun

    ratios = []
    for _ in range(5):  # others use the machine, too
        by_pairs = seconds_of(lambda: east.transfer(source, target, ranges=pairs))
        ratios.append(seconds_of(lambda: east.transfer(ours, theirs, source_blocks=chosen, blocks=put)) / by_pairs)
    assert min(ratios) <= 0.4

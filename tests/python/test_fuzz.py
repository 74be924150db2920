"""Changed files of every format that is parsed in Python are read right, or refused as invalid: see fuzzing.py.

The inputs are the same in every run. ONECOPY_EXAMPLES=100 tries a hundred times as many, ONECOPY_FUZZ_SEED=7 others.
"""

import os

import fuzzing
import pytest
from reference import Arrow

SEED = os.environ.get("ONECOPY_FUZZ_SEED", "onecopy")
TIMES = int(os.environ.get("ONECOPY_EXAMPLES", "1"))
# Inputs of each: those whose results are compared with pyarrow's, in another process, take longer.
COUNTS = {"npy": 9000, "parquet": 3000, "orc": 5000, "arrow": 5000, "thrift": 6000, "protobuf": 9000, "flatbuffer": 9000}


@pytest.fixture(scope="module")
def library():
    made = Arrow()
    yield made
    made.end()


@pytest.mark.parametrize("name", fuzzing.TARGETS)
def test_changed_files_are_read_right_or_refused(library, name, record_property):
    read, refused = fuzzing.run(name, SEED, range(COUNTS[name] * TIMES), library)
    text = f"{name}, seed {SEED}: {read} read, {refused} refused"
    print(text)
    record_property("corpus", text)
    assert read > COUNTS[name] // 50, text
    assert refused > COUNTS[name] // 50, text


def test_an_input_is_the_same_each_time():
    for name in fuzzing.TARGETS:
        assert [fuzzing.input_of(name, 7, number) for number in (0, 100, 200)] == [
            fuzzing.input_of(name, 7, number) for number in (0, 100, 200)]
        assert fuzzing.input_of(name, 7, 200) != fuzzing.input_of(name, 8, 200)


@pytest.mark.parametrize(("raised", "said"), [(ValueError("of a parser's own"), "ValueError: of a parser's own"),
                                              (fuzzing.Wrong("not in the file"), "Wrong: not in the file")])
def test_what_is_wrong_is_found_and_can_be_tried_again(library, monkeypatch, raised, said):
    def read(whole):
        raise raised

    monkeypatch.setitem(fuzzing.TARGETS, "npy", fuzzing.TARGETS["npy"]._replace(read=read))
    with pytest.raises(AssertionError, match=f"{said}(.|\n)*once more: python tests/python/fuzzing.py npy --seed 7 --input 100"):
        fuzzing.run("npy", 7, [100], library)


def test_an_error_that_does_not_say_what_to_do_is_wrong(library, monkeypatch):
    def read(whole):
        raise fuzzing.onecopy.InvalidArgument("wrong", "BAD_FORMAT", "")

    monkeypatch.setitem(fuzzing.TARGETS, "orc", fuzzing.TARGETS["orc"]._replace(read=read))
    with pytest.raises(AssertionError, match="AssertionError"):
        fuzzing.run("orc", 7, [100], library)

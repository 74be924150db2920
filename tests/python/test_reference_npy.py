"""NumPy decides what a .npy file is."""

import importlib.util
import pathlib
import warnings

import hypothesis
import numpy
import pytest
from hypothesis import strategies
from reference import Corpus, attempt, examples, ours

import onecopy
from onecopy.formats import _npy

PAYLOAD = bytes(range(256)) * 16
SHAPES = ["(2,)", "(2L,)", "(2l,)", "(2, 3L)", "(0xaL,)", "(-1,)", "(-2,-3)", "(True,3)", "(4611686018427387904,4)", "()", "[2]", "2",
          "(4294967296,4294967296,0)", "(0,9223372036854775807)", "(0,9223372036854775808)", "(9223372036854775807,0,2)", "(2.0,)",
          "(0x2,)", "(1_0,)", "(+2,)", "(-0,)", "(2+0j,)", "('2',)", "(2,3,4)", "(0,)", "(1000,)", "(1,) * 3", "(" + "1," * 64 + ")",
          "(" + "1," * 65 + ")", "(" + "9223372036854775807," * 400 + ")", "(0x" + "f" * 5000 + ",)", "(" + "9" * 5000 + ",)",
          "(" * 90 + "1" + ",)" * 90, "(" + "-" * 5000 + "1,)", "(" + "1+" * 3000 + "1,)"]
LETTERS = "?bBhHiIlLqQpPnNefdgFDGOSUVmMaTc"
DESCRS = [repr(order + kind) for order in ("", "<", ">", "=", "|", "!", "<<") for kind in (
    *LETTERS, *(f"{kind}{bytes}" for kind in "biufcSUVO" for bytes in ("0", "1", "2", "4", "04", "8", "16", "32", "3", "")),
    "M8[s]", "m8[ns]", "i4,i4", "(2,)i4")] + [
    *map(repr, (*numpy.sctypeDict, "", "x", "i4 ", " i4", "float", "str", "bytes", "object", "i4\0")), "None", "4", "b'<i4'", "['<i4']",
    "[('', '<i4')]", "[('a', '<i4')]", "('<i4', (2,))", "[]", "()", "{}", "'\\x3ci4'", "'<' 'i4'", "[('a', '|O')]"]


def npy(descr="'<i4'", order="False", shape="(2,)", *, version=(1, 0), text=None, payload=PAYLOAD):
    head = (f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}" if text is None else text).encode("latin-1")
    return b"\x93NUMPY" + bytes(version) + len(head).to_bytes(2 if version[0] == 1 else 4, "little") + head + payload


def by_ours(whole):
    length = _npy.header_bytes("a file", whole[:_npy.FIRST_BYTES], len(whole))
    found = _npy.parse("a file", whole[:length], len(whole))
    return found.dtype.typestr, found.shape, whole[found.offset:found.offset + found.bytes], found.fortran


def by_theirs(path, whole):
    path.write_bytes(whole)
    found = numpy.load(path)
    turned = found.flags.f_contiguous and not found.flags.c_contiguous
    return found.dtype.str, found.shape, found.tobytes("F" if turned else "C"), turned


def compare(corpus, path, whole):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python 2, and of escapes
        one, other = ours(lambda: by_ours(whole)), attempt(lambda: by_theirs(path, whole))
    if isinstance(one, onecopy.Unimplemented) and not isinstance(other, Exception):
        kind = numpy.dtype(other[0])
        is_long = kind.char in "gG"  # longdouble, and complex numbers of it
        assert kind.kind not in "biufc" or is_long or kind.byteorder == ">" or not plain(whole), whole[:200]
    if not isinstance(one, Exception) and not isinstance(other, Exception):
        one, other = (one[0].lstrip("<|"), *one[1:]), (other[0].lstrip("<|"), *other[1:])
    corpus.add(whole[:300], one, other)


def plain(whole):
    """Whether the type is a text that stands for itself: no part of a structure, no repetition."""
    return b"'descr': '" in whole and not any(each in whole for each in (b"'1", b"'("))


def test_heads_one_by_one(tmp_path, record_property):
    corpus = Corpus("npy, heads by hand", record_property)
    path = tmp_path / "some.npy"
    for version in ((1, 0), (2, 0), (3, 0)):
        for shape in SHAPES:
            for order in ("False", "True"):
                compare(corpus, path, npy(shape=shape, order=order, version=version))
    for descr in DESCRS:
        compare(corpus, path, npy(descr))
    for version in ((0, 0), (1, 1), (4, 0), (255, 255)):
        compare(corpus, path, npy(version=version))
    right = npy()[10:-len(PAYLOAD)].decode()
    for text in ("", "{}", "[]", "1", right + "\0", "  " + right, "\n" + right, right + "\n  ", right + "\n\n", right + " # x",
                 right.ljust(10_000), right.ljust(10_001), right + "#\xff", right.replace("}", "'x': 1}"), right * 2,
                 right.replace("'descr'", "'shape'"), right.replace("False", "0"), right.replace("False", "None"), "(" * 5000,
                 "{'descr': '<i4', " + right[1:], right.replace("'", '"'), right.replace("'<i4'", "u'<i4'"), right + ";"):
        for version in ((1, 0), (3, 0)):
            compare(corpus, path, npy(text=text, version=version))
    whole = npy()
    for end in range(len(whole) - len(PAYLOAD) + 9):
        compare(corpus, path, whole[:end])
    corpus.end(least=250)


def test_files_of_numpy(tmp_path, record_property):
    folder = pathlib.Path(importlib.util.find_spec("numpy").origin).parent / "lib" / "tests" / "data"
    corpus = Corpus("npy, NumPy's own files", record_property)
    found = sorted(folder.glob("*.npy"))
    if not found:
        pytest.skip("this NumPy comes without its test files")
    for each in found:
        compare(corpus, tmp_path / "some.npy", each.read_bytes())
    seen = corpus.end(least=2)
    assert seen["refused by both"] == len(found) - seen["read alike"]  # those of Python objects


fields = strategies.permutations(["descr", "fortran_order", "shape"])
descrs = strategies.sampled_from(DESCRS) | strategies.sampled_from(["'<i4'", "'<f8'", "'|u1'"])
shapes = strategies.sampled_from(SHAPES) | strategies.lists(strategies.integers(0, 9), max_size=4).map(lambda each: repr(tuple(each)))


@strategies.composite
def heads(draw):
    values = {"descr": draw(descrs), "fortran_order": draw(strategies.sampled_from(["True", "False", "False", "1"])),
              "shape": draw(shapes)}
    names = draw(fields)
    if draw(strategies.integers(0, 9)) == 0:
        names = names[1:] if draw(strategies.booleans()) else [*names, names[0]]
    text = "{" + draw(strategies.sampled_from([", ", ",", ",\n", " , "])).join(f"'{each}': {values[each]}" for each in names) + "}"
    return npy(text=text + draw(strategies.sampled_from(["", "\n", "   \n", "\n ", "\t"])),
               version=draw(strategies.sampled_from([(1, 0), (2, 0), (3, 0)])), payload=PAYLOAD[:draw(strategies.integers(0, 400))])


def test_generated_heads(tmp_path, record_property):
    corpus = Corpus("npy, generated heads", record_property)

    @examples(300)
    @hypothesis.given(heads())
    def run(whole):
        compare(corpus, tmp_path / "some.npy", whole)

    run()
    corpus.end(least=20)

"""The library `safetensors` decides what a safetensors file is."""

import json

import hypothesis
import safetensors
from array_files import entry, raw
from hypothesis import strategies
from reference import Corpus, attempt, examples, in_memory, ours

from onecopy.formats import _safetensors

ONE = b'{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
WITH = b'{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":%s}'
# Heads, each with one byte behind it; and those that need another payload.
HEADS = [
    b"{}", b"  {}", b"[]", b"null", b"", b"1", b'"a"', b"{", b"{}{}", b"{}\0", b"{} \n\t\r", b"\xef\xbb\xbf{}", b"{}\x0b", b"[null]",
    b'{"a":%s}' % ONE, b'\n\t {"a":%s}\r ' % ONE, b'{"a":%s}\0\0' % ONE, b'\xef\xbb\xbf{"a":%s}' % ONE, b'{"a":%s,}' % ONE,
    b'{"__metadata__":null,"a":%s}' % ONE, b'{"__metadata__":{},"a":%s}' % ONE, b'{"__metadata__":[],"a":%s}' % ONE,
    b'{"__metadata__":{"b":"c","b":"d"},"a":%s}' % ONE, b'{"__metadata__":{"b":1},"a":%s}' % ONE,
    b'{"__metadata__":{"b":null},"a":%s}' % ONE, b'{"a":%s,"__metadata__":{"b":"c"}}' % ONE, b'{"__metadata__":"b","a":%s}' % ONE,
    b'{"__metadata__":null,"__metadata__":null,"a":%s}' % ONE, b'{"__met\\u0061data__":{"b":"c"},"a":%s}' % ONE,
    b'{"a":%s,"a":%s}' % (ONE, ONE), b'{"a":{"dtype":"F64","shape":[9],"data_offsets":[7,3]},"a":%s}' % ONE,
    b'{"a":1,"a":%s}' % ONE, b'{"a":%s,"a":1}' % ONE, b'{"x":1,"a":%s}' % ONE, b'{"x":null,"a":%s}' % ONE,
    b'{"a":["U8",[1],[0,1]]}', b'{"a":["U8",[1],[0,1],1]}', b'{"a":["U8",[1]]}', b'{"a":[]}', b'{"a":[["U8"],[1],[0,1]]}',
    b'{"a":[{"U8":null},[1],[0,1]]}', b'{"a":["U8",{},[0,1]]}',
    *(b'{"a":{"dtype":%s,"shape":[1],"data_offsets":[0,1]}}' % each for each in (
        b'{"U8":null}', b'{"U8":{}}', b'{"U8":[]}', b'{"U8":1}', b"{}", b'{"U8":null,"I8":null}', b'{"F7":null}', b"null", b"1",
        b'["U8"]', b'"u8"', b'"F7"', b'""', b'"\\u0055\\u0038"', b"true")),
    *(b'{"a":{"dtype":"U8","shape":%s,"data_offsets":[0,1]}}' % each for each in (
        b"[1.0]", b"[1e0]", b"[-1]", b"[true]", b"[null]", b'["1"]', b"[[1]]", b"{}", b"null", b"1", b"[1,]", b"[]", b"[1,1,1]",
        b"[01]", b"[+1]", b"[0x1]", b"[1 ]", b"[9999999999999999999999]")),
    *(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":%s}}' % each for each in (
        b"[-0,1]", b"[0,1,2]", b"[0]", b"[1,0]", b"[1,2]", b'{"0":0,"1":1}', b"[0.0,1]", b"null", b"[0,18446744073709551616]")),
    b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b'{"a":{"shape":[1],"data_offsets":[0,1]}}',
    b'{"a":{"\\u0064type":"U8","shape":[1],"data_offsets":[0,1]}}', b'{"a":{"x":1,"x":2,"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
    *(b'{"a":%s}' % (WITH % each) for each in (
        b"1", b"-0", b"-1", b"1e999", b"1e-999", b"1e308", b"1.8e308", b"9" * 30, b"9" * 400, b"NaN", b"Infinity", b"true", b"null",
        b'"\\ud800"', b'"\\udc00"', b'"\\ud83d\\ude00"', b'"\\ud800\\ud800"', b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\x1f"',
        b'"\x7f"', b'"\\x"', b'"\\u12"', b"{}", b"[]", b'{"a":[{}]}', b"[1,]", b"{1:2}", b"'a'", b"/**/1",
        *(b"[" * depth + b"]" * depth for depth in (124, 125, 126, 127, 500)),
        *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (124, 125, 126)))),
    *(b'{"%s":%s}' % (each, ONE) for each in (
        b"\\ud800", b"\\ud83d\\ude00", b"", b"\\u0000", b"\x7f", b"\x1f", b"\xff", "ü".encode(), b"a" * 10_000, b"\\/", b"/")),
]
EMPTY = [b'{"a":{"dtype":"%s","shape":%s,"data_offsets":[0,0]}}' % each for each in (
    (b"U8", b"[4611686018427387904,4,0]"), (b"U8", b"[0,4611686018427387904,4]"), (b"F64", b"[4611686018427387904,0]"),
    (b"F64", b"[0,9223372036854775807]"), (b"U8", b"[0,18446744073709551616]"), (b"F64", b"[2305843009213693952,8]"),
    (b"F4", b"[0]"), (b"F6_E2M3", b"[0,7]"))]
DTYPES = ["BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16",
          "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64", "C128", "F128", "I4", "U4", "F8_E4M3FN", "f32", ""]


def by_ours(whole):
    with in_memory(whole) as file:
        header = _safetensors.read(file)
    return {each.name: (each.code, (*each.shape[:-1], each.shape[-1] * 2) if each.dtype and each.dtype.lanes == 2 else each.shape,
                        whole[each.offset:each.offset + each.bytes]) for each in header.tensors}


def by_theirs(whole):
    return {name: (each["dtype"], tuple(each["shape"]), bytes(each["data"])) for name, each in safetensors.deserialize(whole)}


def compare(corpus, whole):
    corpus.add(whole, ours(lambda: by_ours(whole)), attempt(lambda: by_theirs(whole)))


def test_heads_one_by_one(record_property):
    corpus = Corpus("safetensors, heads by hand", record_property)
    for head in HEADS:
        for payload in (b"", b"1", b"12"):
            compare(corpus, raw(head, payload))
    for head in EMPTY:
        compare(corpus, raw(head))
    for dtype in DTYPES:
        for shape in ([0], [1], [2], [8], [3, 8], []):
            for bytes in range(0, 33):
                compare(corpus, raw({"a": entry(dtype, shape, 0, bytes)}, b"x" * bytes))
    whole = raw(b'{"a":%s}' % ONE, b"1")
    for length in (0, 1, len(whole) - 10, len(whole) - 8, len(whole) - 7, 100_000_001, 1 << 63, (1 << 64) - 1):
        compare(corpus, length.to_bytes(8, "little") + whole[8:])
    for end in range(len(whole)):
        compare(corpus, whole[:end])
    corpus.end(least=100)


def test_metadata(tmp_path):
    path = tmp_path / "some.safetensors"
    for head in HEADS:
        whole = raw(head, b"1")
        path.write_bytes(whole)
        try:
            with safetensors.safe_open(path, "numpy") as opened:
                theirs = opened.metadata()
        except Exception:
            continue
        with in_memory(whole) as file:
            assert _safetensors.read(file).metadata == (theirs or {}), head


numbers = strategies.sampled_from(["0", "1", "2", "3", "4", "8", "-0", "1.0", "1e1", "4611686018427387904", "01", "null", '"1"'])
counts = strategies.sampled_from(["0", "1", "2", "4"])
names = strategies.sampled_from(['"a"', '"b"', '"c"', '"\\u0061"', '""', '"__metadata__"', '"\\ud800"', '"\\u0000"'])
anything = strategies.recursive(
    strategies.sampled_from(["null", "true", "1", "-0", "1e999", '"x"', '"\\ud800"', "1.5"]),
    lambda inner: strategies.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]") | strategies.lists(
        strategies.tuples(names, inner), max_size=3).map(
            lambda each: "{" + ",".join(f"{name}:{value}" for name, value in each) + "}"), max_leaves=5)
dtypes = strategies.sampled_from(['"U8"', '"F32"', '"F4"', '"BF16"', '{"U8":null}', '"F7"', "null"])


def lists(elements, **sizes):
    return strategies.lists(elements, **sizes).map(lambda each: f"[{','.join(each)}]")


def objects(fields):
    return fields.map(lambda each: "{" + ",".join(f"{name}:{value}" for name, value in each) + "}")


right = strategies.tuples(strategies.sampled_from([("U8", 1), ("F32", 4), ("BF16", 2)]),
                          strategies.lists(strategies.integers(0, 3), max_size=3))


@strategies.composite
def heads(draw):
    """Mostly right: tensors that follow one another, of which some are spoilt."""
    fields, end = [], 0
    for number in range(draw(strategies.integers(0, 4))):
        (dtype, size), shape = draw(right)
        bytes = size
        for each in shape:
            bytes *= each
        parts = [('"dtype"', f'"{dtype}"'), ('"shape"', json.dumps(shape)), ('"data_offsets"', f"[{end},{end + bytes}]")]
        if draw(strategies.integers(0, 5)) == 0:
            spoil = draw(strategies.integers(0, 2))
            spoilt = [dtypes, lists(numbers, max_size=3), lists(numbers, min_size=1, max_size=3)][spoil]
            parts[spoil] = parts[spoil][0], draw(spoilt)
        parts += draw(strategies.lists(strategies.tuples(names, anything), max_size=1))
        form = draw(strategies.integers(0, 9))
        value = f"[{','.join(each for _, each in parts[:3])}]" if form == 0 else "{" + ",".join(
            f"{name}:{each}" for name, each in draw(strategies.permutations(parts))) + "}"
        fields.append((draw(names) if form == 1 else f'"t{number}"', value))
        end += bytes
    if draw(strategies.booleans()):
        fields.append(('"__metadata__"', draw(strategies.one_of(
            strategies.just("null"), anything,
            objects(strategies.lists(strategies.tuples(names, strategies.just('"x"')), max_size=2))))))
    blank = strategies.sampled_from(["", " ", "\n", "\t ", "\0", "\x0b"])
    text = draw(blank) + draw(objects(strategies.permutations(fields))) + draw(blank)
    return text.encode(), end


def test_generated_heads(record_property):
    corpus = Corpus("safetensors, generated heads", record_property)

    @examples(300)
    @hypothesis.given(heads())
    def run(head):
        compare(corpus, raw(head[0], b"p" * head[1]))

    run()
    seen = corpus.end(least=50)
    assert seen["refused by both"] > 50

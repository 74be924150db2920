"""pyarrow decides what files of Parquet, ORC and Arrow are: its own test files, files that it writes, and what becomes of these
when bytes change."""

import base64
import importlib.util
import itertools
import pathlib
import random

import numpy
import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pyarrow.parquet.encryption
import pytest
from reference import Arrow, Bytes, Corpus, attempt, ours

import onecopy
import onecopy.arrow
import onecopy.parquet
from onecopy.formats import _orc_footer, _parquet_footer

DATA = pathlib.Path(importlib.util.find_spec("pyarrow").origin).parent / "tests" / "data"


@pytest.fixture(scope="module")
def arrow():
    made = Arrow()
    yield made
    made.end()


def tables():
    """By name, of every kind that all three formats have, and some that lack rows or columns."""
    numbers = numpy.arange(1000)
    whole = pyarrow.table({
        "id": numbers, "small": numbers.astype("int8"), "price": numbers / 7, "flag": numbers % 3 == 0,
        "name": [f"name {each % 100}" if each % 5 else None for each in range(1000)],
        "blob": [b"x" * (each % 9) for each in range(1000)],
        "tags": pyarrow.array([[int(each), 2] if each % 3 else None for each in range(1000)], pyarrow.list_(pyarrow.int64())),
        "point": pyarrow.StructArray.from_arrays([numbers * 2, numbers * 3], ["x", "y"]),
        "pairs": pyarrow.array([[("k", i)] * (i % 3) for i in range(1000)], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "sum": pyarrow.array(range(1000), pyarrow.decimal128(20, 3)), "day": pyarrow.array(range(1000), pyarrow.date32()),
        "at": pyarrow.array(range(1000), pyarrow.timestamp("ms"))})
    return {"whole": whole, "one row": whole.slice(3, 1), "no rows": whole.slice(0, 0),
            "nulls": pyarrow.table({"a": pyarrow.array([None] * 9, "int32"), "b": pyarrow.array([None] * 9, "string")}),
            "one column": whole.select(["name"]), "wide": pyarrow.table({f"c{number}": [number] for number in range(300)})}


def mutations(whole, tail, count, seed):
    """What becomes of the last bytes when some change."""
    chance = random.Random(seed)
    for _ in range(count):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            at = len(changed) - 1 - chance.randrange(min(tail, len(changed)))
            if chance.randrange(4):
                changed[at] = chance.choice([chance.randrange(256), changed[at] ^ 1 << chance.randrange(8), 0, 255])
            else:
                del changed[at:at + chance.randrange(1, 4)]
        yield bytes(changed)


# ---- Parquet


def parquet(file):
    tail = file.read(max(0, file.size - _parquet_footer.TAIL_BYTES), _parquet_footer.TAIL_BYTES)
    length = _parquet_footer.footer_bytes(file.name, tail, file.size)
    footer = _parquet_footer.parse(file.name, file.read(file.size - len(tail) - length, length))
    places = _parquet_footer.places(file.name, footer, range(footer.row_groups), range(len(footer.columns)), file.size - length)
    return footer, places


def parquet_by_ours(file):
    footer, places = parquet(file)
    return [(each.path, each.physical_type, each.type_length, each.max_definition_level, each.max_repetition_level)
            for each in footer.columns], [
        (each.row_group, each.column.path, set(each.encodings), each.values, each.uncompressed_bytes, each.bytes,
         each.offset if each.bytes else 0) for each in places], footer.rows


def parquet_by_theirs(path):
    found = pyarrow.parquet.read_metadata(path)
    leaves = [found.schema.column(number) for number in range(found.num_columns)]
    columns = [(each.path, each.physical_type, each.length if each.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0,
                each.max_definition_level, each.max_repetition_level) for each in leaves]
    places = []
    for group, number in itertools.product(range(found.num_row_groups), range(found.num_columns)):
        one = found.row_group(group).column(number)
        first, dictionary = one.data_page_offset, one.dictionary_page_offset or 0
        begin = dictionary if 0 < dictionary and (dictionary < first or first == 0) else first
        places.append((group, one.path_in_schema, set(one.encodings), one.num_values, one.total_uncompressed_size,
                       one.total_compressed_size, begin if one.total_compressed_size else 0))
    return columns, places, found.num_rows


def test_parquet_files_of_pyarrow(record_property):
    corpus = Corpus("Parquet, pyarrow's own files", record_property)
    files = sorted((DATA / "parquet").glob("*.parquet"))
    if not files:
        pytest.skip("this pyarrow comes without its test files")
    for path in files:
        corpus.add(path.name, ours(lambda path=path: parquet_by_ours(Bytes(path.read_bytes()))),
                   attempt(lambda path=path: parquet_by_theirs(path)))
    assert corpus.end(least=len(files)) == {"read alike": len(files)}


def parquet_files(folder):
    for number, (table, options) in enumerate(itertools.product(tables().values(), (
            {"compression": "none"}, {"compression": "snappy", "version": "1.0"}, {"compression": "gzip", "use_dictionary": False},
            {"compression": "brotli", "data_page_version": "2.0"}, {"compression": "zstd", "row_group_size": 100},
            {"compression": "lz4", "write_statistics": False, "write_page_index": False},
            {"compression": "none", "write_page_index": True, "write_page_checksum": True, "store_schema": False,
             "use_byte_stream_split": ["price"]}))):
        if "use_byte_stream_split" in options and "price" in table.column_names:
            options = {**options, "use_dictionary": False}
        else:
            options = {name: each for name, each in options.items() if name != "use_byte_stream_split"}
        path = folder / f"{number}.parquet"
        pyarrow.parquet.write_table(table, path, **options)
        yield path
    path = folder / "groups.parquet"
    with pyarrow.parquet.ParquetWriter(path, tables()["whole"].schema) as writer:
        for table in (tables()["whole"], tables()["no rows"], tables()["one row"]):
            writer.write_table(table)
    yield path


def test_parquet_files_that_pyarrow_writes(east, tmp_path, record_property):
    corpus = Corpus("Parquet, files that pyarrow writes", record_property)
    for path in parquet_files(tmp_path):
        corpus.add(path.name, ours(lambda path=path: parquet_by_ours(Bytes(path.read_bytes()))),
                   attempt(lambda path=path: parquet_by_theirs(path)))
        whole = path.read_bytes()
        chunks = onecopy.parquet.load(east, path)
        assert all(bytes(each.data.memory) == whole[each.offset:each.offset + each.data.nbytes] for each in chunks), path
        assert chunks.rows == 0 or sum(each.data.nbytes for each in chunks) > 0
    corpus.end(least=40)


def test_changed_footers_of_parquet(arrow, tmp_path, record_property):
    """What we read pyarrow reads, and what pyarrow reads to the last value we read."""
    corpus = Corpus("Parquet, changed footers", record_property)
    path = tmp_path / "some.parquet"
    for name in ("whole", "no rows", "one column"):
        pyarrow.parquet.write_table(tables()[name], path, row_group_size=400)
        whole = path.read_bytes()
        for changed in mutations(whole, int.from_bytes(whole[-8:-4], "little") + 8, 120, name):
            path.write_bytes(changed)
            found = ours(lambda changed=changed: parquet(Bytes(changed)))
            if isinstance(found, Exception):
                corpus.add(f"{found}", found, attempt(lambda: arrow.call("parquet_data", path)))
                continue
            footer, _ = found
            counts = [footer.rows, footer.row_groups, len(footer.columns)]
            theirs = attempt(lambda: arrow.call("parquet", path))
            # Of types and names pyarrow knows more than the footer's form.
            corpus.add(f"{counts}", counts, counts if isinstance(theirs, Exception) else theirs)
    corpus.end(least=50)


class Kms(pyarrow.parquet.encryption.KmsClient):
    def wrap_key(self, key, master):
        return base64.b64encode(key)

    def unwrap_key(self, key, master):
        return base64.b64decode(key)


def test_encrypted_parquet(east, tmp_path):
    factory = pyarrow.parquet.encryption.CryptoFactory(lambda _: Kms())
    for plain_footer, message in ((False, "the footer of .* is encrypted"), (True, "column 'id' of .* is encrypted")):
        path = tmp_path / f"{plain_footer}.parquet"
        properties = factory.file_encryption_properties(
            pyarrow.parquet.encryption.KmsConnectionConfig(), pyarrow.parquet.encryption.EncryptionConfiguration(
                footer_key="a", column_keys={"b": ["id"]}, plaintext_footer=plain_footer))
        with pyarrow.parquet.ParquetWriter(path, tables()["whole"].schema, encryption_properties=properties) as writer:
            writer.write_table(tables()["whole"])
        with pytest.raises(onecopy.Unimplemented, match=message) as failure:
            onecopy.parquet.load(east, path)
        assert failure.value.remedy == "decrypt the file first"
    assert bytes(onecopy.parquet.load(east, path, "price")[0].data.memory)  # which is not


# ---- ORC


def orc(file):
    footer = _orc_footer.open_footer(file)
    stripes = [_orc_footer.streams(file, footer, number) for number in range(len(footer.stripes))]
    return footer, stripes


def orc_by_ours(file):
    footer, stripes = orc(file)
    assert all(each.offset + each.bytes <= file.size for _, _, places in stripes for each in places)
    return [footer.rows, len(stripes), footer.codec.lower(), footer.block_bytes, sum(each[0].rows for each in stripes),
            [each.path for each in footer.columns if each.parent == 0]]


def orc_by_theirs(path):
    found = pyarrow.orc.ORCFile(path)
    rows = sum(found.read_stripe(number).num_rows for number in range(found.nstripes))
    codec = str(found.compression).lower().replace("uncompressed", "none")
    return [found.nrows, found.nstripes, codec, found.compression_size, rows, found.schema.names]


def test_orc_files_of_pyarrow(record_property):
    corpus = Corpus("ORC, pyarrow's own files", record_property)
    files = sorted((DATA / "orc").glob("*.orc"))
    if not files:
        pytest.skip("this pyarrow comes without its test files")
    for path in files:
        corpus.add(path.name, ours(lambda path=path: orc_by_ours(Bytes(path.read_bytes()))),
                   attempt(lambda path=path: orc_by_theirs(path)))
    assert corpus.end(least=len(files)) == {"read alike": len(files)}


def without_magic(whole):
    """As the first writers ended it: the postscript has no magic."""
    length = whole[-1]
    script = whole[-1 - length:-1]
    assert script.endswith(b"\x82\xf4\x03\x03ORC")
    return whole[:-1 - length] + script[:-7] + bytes([length - 7])


def test_orc_files_that_pyarrow_writes(tmp_path, record_property):
    corpus = Corpus("ORC, files that pyarrow writes", record_property)
    path = tmp_path / "some.orc"
    for table, options in itertools.product(tables().values(), (
            {"compression": "uncompressed"}, {"compression": "zlib", "stripe_size": 16_384},
            {"compression": "snappy", "file_version": "0.11"}, {"compression": "zstd", "dictionary_key_size_threshold": 1.0},
            {"compression": "lz4", "compression_block_size": 65_536, "row_index_stride": 10_000})):
        pyarrow.orc.write_table(table, path, **options)
        whole = path.read_bytes()
        for bytes_ in (whole, without_magic(whole), b"PAR" + whole[3:], b"PAR" + without_magic(whole)[3:]):
            path.write_bytes(bytes_)
            corpus.add(f"{options} {bytes_[:3]}", ours(lambda bytes_=bytes_: orc_by_ours(Bytes(bytes_))),
                       attempt(lambda: orc_by_theirs(path)))
    corpus.end(least=60)


def test_changed_tails_of_orc(arrow, tmp_path, record_property):
    corpus = Corpus("ORC, changed tails", record_property)
    path = tmp_path / "some.orc"
    for codec in ("uncompressed", "zlib"):
        pyarrow.orc.write_table(tables()["whole"].select(["id", "name", "tags"]), path, compression=codec)
        whole = path.read_bytes()
        for changed in mutations(whole, 600, 150, codec):
            path.write_bytes(changed)
            found = ours(lambda changed=changed: orc(Bytes(changed)))
            if isinstance(found, Exception):
                corpus.add(f"{found}", found, attempt(lambda: arrow.call("orc_data", path)))
                continue
            counts = [found[0].rows, len(found[1])]
            theirs = attempt(lambda: arrow.call("orc", path))
            corpus.add(f"{counts}", counts, counts if isinstance(theirs, Exception) else theirs)
    corpus.end(least=30)


# ---- Arrow


def arrow_by_ours(node, path):
    loaded = onecopy.arrow.load(node, path)
    batches = [each.batch for each in loaded]
    for each in batches:
        each.validate(full=True)
    return pyarrow.Table.from_batches(batches, loaded.schema)


def arrow_by_theirs(path):
    with pyarrow.OSFile(str(path)) as opened:
        found = pyarrow.ipc.open_file(opened).read_all()
    found.validate(full=True)
    return found


def compare_arrow(corpus, node, path):
    # What its schema does not fit both read without a look at values.
    one = attempt(lambda: arrow_by_ours(node, path))
    assert not isinstance(one, Exception) or isinstance(one, (onecopy.Error, pyarrow.ArrowInvalid)), repr(one)
    corpus.add(path.name, one, attempt(lambda: arrow_by_theirs(path)))


def test_arrow_files_of_pyarrow(east, record_property):
    corpus = Corpus("Arrow, pyarrow's own files", record_property)
    files = sorted(DATA.glob("feather/*.feather"))
    if not files:
        pytest.skip("this pyarrow comes without its test files")
    for path in files:  # of an early version, and compressed as only that one says it
        compare_arrow(corpus, east, path)
    assert corpus.end(least=0) == {"not loaded, and said so": len(files)}


def arrow_tables():
    numbers = numpy.arange(100)
    yield from tables().values()
    yield pyarrow.table({
        "large": pyarrow.array(["x" * (each % 5) for each in range(100)], pyarrow.large_string()), "fixed": pyarrow.array(
            [b"abc"] * 100, pyarrow.binary(3)), "kind": pyarrow.array(["a", "b"] * 50).dictionary_encode(), "nothing": pyarrow.nulls(100),
        "half": numbers.astype("float16"), "span": pyarrow.array(range(100), pyarrow.duration("s")),
        "list": pyarrow.array([[each, each] for each in range(100)], pyarrow.list_(pyarrow.int32(), 2)),
        "wide": pyarrow.array(range(100), pyarrow.decimal256(50, 3)),
        "deep": pyarrow.array([[[{"a": [each]}]] for each in range(100)])})
    for array in (pyarrow.array(["x"] * 9, pyarrow.string_view()), pyarrow.array([[1]] * 9, pyarrow.list_view(pyarrow.int8())),
                  pyarrow.UnionArray.from_sparse(pyarrow.array([0, 1], "int8"), [pyarrow.array([1, 2]), pyarrow.array(["a", "b"])]),
                  pyarrow.RunEndEncodedArray.from_arrays([3], ["a"]), pyarrow.array([["a"]]).cast(
                      pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))),
                  pyarrow.array([(1, 2, 3)], pyarrow.month_day_nano_interval())):
        yield pyarrow.table({"id": range(len(array)), "a": array})


def test_arrow_files_that_pyarrow_writes(east, tmp_path, record_property):
    corpus = Corpus("Arrow, files that pyarrow writes", record_property)
    path = tmp_path / "some.arrow"
    for table, (rows, options) in itertools.product(arrow_tables(), (
            (10_000, {}), (300, {}), (10_000, {"metadata_version": pyarrow.ipc.MetadataVersion.V4}),
            (10_000, {"compression": "lz4"}), (7, {"use_legacy_format": True}))):
        try:
            with pyarrow.ipc.new_file(path, table.schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as writer:
                writer.write_table(table, max_chunksize=rows)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError):  # what V4 has not
            continue
        compare_arrow(corpus, east, path)
    corpus.end(least=25)


def test_changed_files_of_arrow(east, tmp_path, record_property):
    corpus = Corpus("Arrow, changed files", record_property)
    path = tmp_path / "some.arrow"
    table = tables()["whole"].select(["id", "name", "tags", "point"]).slice(0, 50)
    with pyarrow.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)
    whole = path.read_bytes()
    for changed in mutations(whole, len(whole), 300, 14):
        path.write_bytes(changed)
        compare_arrow(corpus, east, path)
    corpus.end(least=30)

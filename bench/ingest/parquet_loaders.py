"""The readers of Parquet files: ours, which loads the column chunks as they are, and others, which also decode them."""

import loaders
import numpy
import tables
from loaders import Loader, Setting


def _onecopy(table, device, run_dir):
    import onecopy
    import onecopy.parquet

    made = onecopy.parquet.load(onecopy.connect(run_dir), table.files[0], device=None if device == "cpu" else device)
    return made, made


def _other_chunk(table, made, byte_by_byte):
    """What of the chunks is not as it is in the file, or None; every byte is compared each time."""
    import torch

    if [[each.offset, each.data.nbytes] for each in made] != table.chunks:
        return f"{len(made)} chunks are not the {len(table.chunks)} of the file"
    with open(table.files[0], "rb") as file:
        for each in made:
            file.seek(each.offset)
            there = numpy.frombuffer(file.read(each.data.nbytes), dtype=numpy.uint8)
            if not numpy.array_equal(torch.from_dlpack(each.data).cpu().numpy(), there):
                return f"the chunk of {each.column.path} in row group {each.row_group} has other bytes than the file"
    return None


def _pyarrow(table, device, run_dir, **options):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(table.files[0], **options), None


def _libcudf(table, device, run_dir):
    if device == "cpu":
        raise RuntimeError("libcudf decodes on GPUs only")
    import pylibcudf

    options = pylibcudf.io.parquet.ParquetReaderOptions.builder(pylibcudf.io.SourceInfo(list(table.files))).build()
    return pylibcudf.io.parquet.read_parquet(options).tbl, None


def _other_rows(table, made, byte_by_byte):
    """What was decoded has other bytes than the file, so its rows are counted."""
    rows = made.num_rows() if callable(made.num_rows) else made.num_rows
    return None if rows == table.rows else f"{rows} rows were read of {table.rows}"


def _both(*settings):
    return {loaders.COLD: settings, loaders.WARM: settings}


ONECOPY = Loader("onecopy.parquet", "onecopy", "onecopy.parquet", _both(Setting("default")), _onecopy, tables.Table,
                 _other_chunk)
COMPETITORS = (
    Loader("pyarrow read_table, decoding", "pyarrow", "pyarrow.parquet", _both(
        Setting("pre_buffer"), Setting("memory map", options={"memory_map": True})), _pyarrow, tables.Table,
        _other_rows),
    Loader("libcudf read_parquet, decoding", "pylibcudf-cu13", "pylibcudf", _both(Setting("default")), _libcudf,
           tables.Table, _other_rows),
)

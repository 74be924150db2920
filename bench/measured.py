#!/usr/bin/env python3
"""Keeps the rows of `onecopy-bench run`, and makes the table of docs/speed.md from them.

    bench/measured.py record NAME --commit COMMIT --driver VERSION ROWS.json…    writes docs/measurements/NAME.json
    bench/measured.py write                                                      renews the table of docs/speed.md

`tests/run checks` fails if the table is not what these rows make.
"""

import argparse
import json
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
FOLDER = DOCS / "measurements"
PAGE = DOCS / "speed.md"
_FIELDS = ("work", "path", "bytes", "unit", "median", "min", "max", "ceiling", "ceiling_bytes_per_second", "ratio", "target",
           "floor", "samples", "status")
_MARKS = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- end of measured -->)", re.DOTALL)
_GIB, _MIB = 1 << 30, 1 << 20

# What the table has: words for people, the row's work and bytes, and its ceiling where the work has several.
_ROWS = (
    ("host → host, two daemons, loopback, 1 GiB", "tcp host to host", _GIB, None),
    ("the same, through pinned slots", "tcp host to host, staged", _GIB, None),
    ("GPU → GPU, two daemons, loopback, 1 GiB", "tcp gpu to gpu", _GIB, None),
    ("GPU → host, two daemons, loopback, 1 GiB", "tcp gpu to host", _GIB, None),
    ("GPU → GPU, one daemon, through host memory, 1 GiB", "peer gpu to gpu, bounced", _GIB, None),
    ("GPU → GPU, one daemon, NVLink, 1 GiB", "peer gpu to gpu", _GIB, "cuMemcpyPeerAsync-vmm"),
    ("the same, 16 MiB", "peer gpu to gpu", 16 * _MIB, "cuMemcpyPeerAsync-vmm"),
    ("the same, 1 MiB", "peer gpu to gpu", _MIB, "cuMemcpyPeerAsync-vmm"),
    ("GPU → GPU, two daemons of one host, NVLink, 1 GiB", "peer gpu to gpu, between daemons", _GIB,
     "cuMemcpyPeerAsync-vmm"),
    ("the same, 1 MiB", "peer gpu to gpu, between daemons", _MIB, "cuMemcpyPeerAsync-vmm"),
    ("GPU → GPU while another process keeps both GPUs busy, 1 GiB", "beside kernels, peer gpu to gpu", _GIB,
     "cuMemcpyPeerAsync-vmm"),
    ("the same, 1 MiB", "beside kernels, peer gpu to gpu", _MIB, "cuMemcpyPeerAsync-vmm"),
    ("1,000 ranges of 64 KiB, GPU → GPU", "scattered 1,000 x 64 KiB", 1000 << 16, None),
    ("one float of each 32-byte structure, GPU → GPU", "strided column", 64 * _MIB, None),
    ("4 KiB, GPU → GPU, requested by another process", "small gpu in node", 4096, None),
    ("4 KiB, GPU → GPU, after a second of rest", "small gpu in node after 1 s", 4096, None),
    ("4 KiB, host → host, two daemons, one at a time", "small host between nodes", 4096, None),
    ("the same, requested by the source", "small host between nodes, asked by the source", 4096, None),
    ("4 KiB, host → host, two daemons, 256 in flight", "small host between nodes, 256 in flight", 4096, None),
)
_PATHS = {"scattered 1,000 x 64 KiB": "peer-direct", "strided column": "peer-direct"}  # of works with several
_CEILINGS = {
    "plain-sockets": "plain sockets, as many lanes",
    "plain-sockets-reused": "plain sockets with reused buffers",
    "slower of sockets and pinned copies": "plain sockets with reused buffers, or pinned copies, whichever is slower",
    "pinned-copies": "pinned copies both ways at once",
    "cuMemcpyPeerAsync-vmm": "`cuMemcpyPeerAsync`",
    "cuMemcpyPeerAsync": "`cuMemcpyPeerAsync` and waiting for it",
    "one transfer": "one transfer of as many bytes",
    "tcp-ping-pong": "a plain socket's ping-pong",
}


def record(name, commit, driver, files):
    rows = [row for file in files for row in json.loads(pathlib.Path(file).read_text())
            if not row["work"].startswith(("cpu ", "host memory traffic"))]
    kept = {"commit": commit, "date": min(row["time"] for row in rows)[:10], "machine": rows[0]["machine"],
            "driver": driver, "version": rows[0]["version"],
            "rows": [{field: _short(row[field]) for field in _FIELDS} for row in rows]}
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in kept.pop("rows"))
    head = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in kept.items())
    (FOLDER / f"{name}.json").write_text(f'{{{head},\n "rows": [\n  {lines}]}}\n')


def table(measured):
    """The lines of the table that these rows make."""
    lines = ["| transfer | path | rate | least and most | ceiling | ratio |", "|---|---|---|---|---|---|"]
    for words, work, size, ceiling in _ROWS:
        found = [row for row in measured["rows"]
                 if row["work"] == work and row["bytes"] == size and ceiling in (None, row["ceiling"])
                 and _PATHS.get(work, row["path"]) == row["path"]]
        if len(found) != 1:
            raise ValueError(f"{len(found)} rows of {work!r}, {size} bytes")
        row = found[0]
        show = _time if size == 4096 and "in flight" not in work else lambda value, size: _rate(value)
        least, most = sorted((row["min"], row["max"]), reverse=show is _time)
        short = "" if row["target"] is None or row["ratio"] >= row["target"] else f" (target {row['target']:.2g})"
        lines.append(
            f"| {words} | `{row['path']}` | {show(row['median'], size)} | {show(least, size)}, {show(most, size)} | "
            f"{_CEILINGS[row['ceiling']]}: {show(row['ceiling_bytes_per_second'], size)} | {row['ratio']:.3g}{short} |")
    return lines


def page(text):
    """The page with its table as the rows make it. Raises ValueError where it names no file of rows."""
    if not _MARKS.search(text):
        raise ValueError("it has no place for the table: <!-- measured: FILE --> … <!-- end of measured -->")

    def made(match):
        measured = json.loads((FOLDER / match.group(2)).read_text())
        return match.group(1) + "\n".join(table(measured)) + "\n" + match.group(3)

    return _MARKS.sub(made, text)


def _short(value):
    if not isinstance(value, float):
        return value
    short = float(f"{value:.4g}")
    return int(short) if short >= 1e4 else short


def _rate(value):
    digits = 1 if value < 100e9 else 0
    return f"{value / 1e9:.{2 if value < 10e9 else digits}f} GB/s"


def _time(value, size):
    micros = size / value * 1e6
    return f"{micros:.1f} µs" if micros < 100 else f"{micros:.0f} µs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("name")
    recording.add_argument("--commit", required=True)
    recording.add_argument("--driver", required=True)
    recording.add_argument("files", nargs="+")
    commands.add_parser("write")
    typed = parser.parse_args()
    if typed.command == "record":
        record(typed.name, typed.commit, typed.driver, typed.files)
    else:
        PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

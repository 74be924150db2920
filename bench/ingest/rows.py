"""Rows as onecopy-bench has them (bench/README.md, "Rows"): made, judged, and written for programs and for people."""

import json
import statistics

OK, WAIVED, FAILED = "OK", "WAIVED", "FAILED"


def row(work, bytes, unit="B/s", path=None, **more):
    """One that has not been judged."""
    made = {"work": work, "path": path, "bytes": bytes, "unit": unit, "values": [], "ceiling": None,
            "ceiling_values": [], "floor": None, "roof": None, "target": None, "limit": None, "verified": None,
            "status": OK, "reason": None, "detail": None, "details": {}}
    assert more.keys() <= made.keys(), more
    return made | more


def waived(made, reason, detail):
    return made | {"status": WAIVED, "reason": reason, "detail": detail}


def failed(made, reason, detail):
    return made | {"status": FAILED, "reason": reason, "detail": detail}


def ratio(made):
    """The median of the ratios of what was measured side by side; None where nothing was held against anything."""
    if not made["values"] or not made["ceiling_values"]:
        return None
    return statistics.median(ours / theirs for ours, theirs in zip(made["values"], made["ceiling_values"], strict=True))


def judged(made):
    if made["verified"] is False:
        return failed(made, "PAYLOAD_WRONG", made["detail"] or "the bytes that arrived are not those of the file")
    reached = ratio(made)
    if made["floor"] is not None and reached is not None and reached < made["floor"]:
        return failed(made, "BELOW_FLOOR",
                      f"{reached:.4g} of {made['ceiling']}, and {made['floor']:.4g} is the least that is good enough")
    return made


def document(all_rows, machine, time, version):
    def whole(made):
        values, ceiling, rate = made["values"], made["ceiling_values"], made["unit"] == "B/s"
        median = statistics.median(values) if values else None
        return made | {
            "median": median, "min": min(values, default=None), "max": max(values, default=None),
            "samples": len(values), "median_bytes_per_second": median if rate else None, "ratio": ratio(made),
            "ceiling_bytes_per_second": statistics.median(ceiling) if ceiling and rate else None,
            "machine": machine, "time": time, "version": version}

    return json.dumps([whole(made) for made in all_rows], indent=2) + "\n"


def _value(unit, value):
    return f"{value / 1e9:.3g} GB/s" if unit == "B/s" else f"{value:.3g} {unit}"


def table(all_rows):
    lines = [("work", "size", "median", "ceiling", "ratio", "floor", "status")]
    for made in all_rows:
        reached = ratio(made)
        held = f"{_value(made['unit'], statistics.median(made['ceiling_values']))} {made['ceiling']}" if reached else ""
        median = _value(made["unit"], statistics.median(made["values"])) if made["values"] else ""
        lines.append((made["work"], f"{made['bytes'] / (1 << 20):.0f} MiB", median, held,
                      f"{reached:.3f}" if reached else "", f"{made['floor']:g}" if made["floor"] else "",
                      made["status"]))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    text = "\n".join("  ".join(line).rstrip() for line in padded)
    why = "".join(f"\n{made['work']}: {made['status']}, {made['reason']}: {made['detail']}" for made in all_rows
                  if made["status"] != OK)
    return text + "\n" + why

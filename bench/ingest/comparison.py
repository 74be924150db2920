"""Ours beside each competitor, and beside the best of them: what becomes rows."""

import statistics
from typing import NamedTuple

import rows
import samples


class Asked(NamedTuple):
    """What is compared."""

    place: samples.Place
    work: str  # the rows' name
    condition: str
    ours: object  # loaders.Loader
    competitors: tuple  # all that there are
    left_out: dict  # by the names of those that are not even tried: why, a samples.Failure
    count: int  # samples of each
    floor: float | None  # of ours, in the best competitor's rate
    verdict: bool  # whether there is a row of the best one
    progress: object  # (text)
    stop: object  # () raises where the run is to end


def measure(asked, trial, facts, bytes):
    """The rows. Settings are chosen by loading `trial`, the samples are of `facts`, which has so many bytes."""
    chosen, absent = {}, {}
    for loader in (asked.ours, *asked.competitors):
        if loader.name in asked.left_out:
            absent[loader.name] = asked.left_out[loader.name]
            continue
        asked.stop()
        try:
            chosen[loader.name] = samples.choose(asked.place, loader, trial, asked.condition, asked.progress)
        except samples.Failure as failure:
            absent[loader.name] = failure
    blank = rows.row(asked.work, bytes)
    if asked.ours.name in absent:  # ours fails, unless the page cache is not to be had
        failure = absent[asked.ours.name]
        outcome = rows.waived if failure.reason == "NOT_APPLICABLE" else rows.failed
        return [outcome(blank, failure.reason, failure.detail)]
    wrong = {name: each.said["wrong"] for name, each in chosen.items() if each.said["wrong"]}
    usable = {name: each for name, each in chosen.items() if name not in wrong}
    taken, failures = samples.rounds(asked.place, usable, facts, asked.condition, asked.count, asked.stop)
    for name, said in taken.items():
        if bad := next((each["wrong"] for each in said if each["wrong"]), None):
            wrong[name] = bad
    if asked.ours.name in failures:
        failure = failures[asked.ours.name]
        return [rows.failed(blank, failure.reason, failure.detail)]
    if asked.ours.name in wrong:
        return [rows.judged(blank | {"verified": False, "detail": wrong[asked.ours.name]})]
    ours = taken[asked.ours.name]
    blank |= {"path": ours[0].get("path"), "verified": True}
    best, beside = None, []
    for loader in asked.competitors:
        name = loader.name
        called = f"{name} ({chosen[name].setting.name})" if name in chosen else name
        row = blank | {"work": f"{asked.work}, against {name}"}
        if name in absent:
            row = not_run(row, loader, absent[name])
        elif name in wrong:
            row = rows.failed(row | {"verified": False}, "PAYLOAD_WRONG", f"{called}: {wrong[name]}")
        elif name in failures:
            row = rows.failed(row | {"verified": None}, failures[name].reason,
                              f"{called} ran, and then failed: {failures[name].detail}")
        else:
            row |= _held(ours, taken[name], called)
            if best is None or _median(taken[name], "seconds") < _median(best[0], "seconds"):
                best = (taken[name], called)
        beside.append(row)
    return (_verdict(asked, blank, ours, best) if asked.verdict else []) + beside


def not_run(row, loader, failure):
    """The row of a competitor that did not even begin, with its reason."""
    why = {"FILE_NOT_FOUND": f"the package {loader.package} is not installed: {failure.detail}",
           "NOT_REQUESTED": failure.detail}.get(failure.reason, f"it cannot here: {failure.detail}")
    return rows.waived(row | {"verified": None}, failure.reason, f"not run: {why}")


def _verdict(asked, blank, ours, best):
    """The row that decides, and what that cost in CPU time."""
    cost = blank | {"work": f"cpu {asked.work}", "unit": "s/GB", "values": _cpu(ours), "details": {}}
    if best is None:
        alone = blank | {"values": _rates(ours), "details": _details(ours)}
        return [rows.waived(alone, "NOT_APPLICABLE", "no competitor ran, so there is nothing to hold it against"), cost]
    theirs, called = best
    return [rows.judged(blank | _held(ours, theirs, called) | {"floor": asked.floor}),
            cost | {"ceiling": called, "ceiling_values": _cpu(theirs)}]


def _held(ours, theirs, called):
    details = _details(ours) | {f"ceiling_{key}": value for key, value in _details(theirs).items()}
    return {"values": _rates(ours), "ceiling": called, "ceiling_values": _rates(theirs), "details": details}


def _rates(said):
    return [each["bytes"] / each["seconds"] for each in said]


def _cpu(said):
    return [each["cpu_seconds"] / each["bytes"] * 1e9 for each in said]


def _median(said, key):
    return statistics.median(each[key] for each in said)


def _details(said):
    """Medians over the samples."""
    made = {"seconds": _median(said, "seconds"), "cpu_seconds_per_gb": statistics.median(_cpu(said)),
            "cached_afterwards": _median(said, "cached_afterwards")}
    return made | ({"copies": said[0]["copies"]} if "copies" in said[0] else {})

"""Runs fuzz targets under libFuzzer: each for some seconds, from its corpus and from what earlier runs here found."""

import concurrent.futures
import os
import re
import subprocess

import report

PRESET = "fuzz"  # the build whose programs are libFuzzer's
SUITE = "fuzz"
SECONDS = 20  # for each target

_GRACE_SECONDS = 120  # for a target to read its corpus, and to end
_INPUT_SECONDS = 25  # that one input may take
_MOST_MEGABYTES = 2048
_MOST_BYTES = 65536  # of an input
_LOG_LINES = 60
_DONE = re.compile(r"^Done (\d+) runs in (\d+) second", re.MULTILINE)


def run(root, build, programs, seconds, logs, env, outcome):
    """Runs all programs, as many at a time as there are processors."""
    if not programs:
        outcome.case(report.FAIL, SUITE, "this build has no such programs")
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        pending = {pool.submit(_run, root, build, each.path, seconds, logs, env): each.path.name for each in programs}
        for future in concurrent.futures.as_completed(pending):
            result, reason, log = future.result()
            outcome.case(result, f"{SUITE}/{pending[future]}", reason)
            if result == report.FAIL and log.exists():
                report.output(log, log.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _run(root, build, program, seconds, logs, env):
    """Returns the outcome, what to say of it, and the program's log."""
    log = logs / f"{program.name}.log"
    if not program.exists():
        return report.FAIL, f"{program} is missing from the build", log
    seeds = root / "tests/fuzz/corpus" / program.name
    if not seeds.is_dir():
        return report.FAIL, f"there is no {seeds.relative_to(root)}", log
    found = build / "corpus" / program.name
    found.mkdir(parents=True, exist_ok=True)
    for old in logs.glob(f"{program.name}.bad-*"):
        old.unlink()
    command = [program, f"-max_total_time={seconds}", f"-timeout={_INPUT_SECONDS}", f"-rss_limit_mb={_MOST_MEGABYTES}",
               f"-max_len={_MOST_BYTES}", f"-artifact_prefix={logs / program.name}.bad-", found, seeds]
    with log.open("wb") as output:
        try:
            status = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                    timeout=seconds + _GRACE_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            return report.FAIL, f"no end {_GRACE_SECONDS} s after its time", log
    done = _DONE.search(log.read_text(errors="replace"))
    if status != 0 or done is None:
        bad = ", ".join(str(path) for path in sorted(logs.glob(f"{program.name}.bad-*"))) or "none was kept"
        return report.FAIL, f"ended with status {status}; the input: {bad}", log
    return report.OK, f"{int(done[1]):,} inputs in {done[2]} s", log

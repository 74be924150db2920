"""Runs one Catch2 program under a time limit and reports its cases."""

import dataclasses
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import catch_report
import report
import session

_LOG_LINES = 200  # of the program's output, shown when it fails
_ALL_SKIPPED = 4  # Catch2 3's exit status when every case was
_running = set()  # sessions of programs
_SANITIZERS = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS")


@dataclasses.dataclass(frozen=True)
class Task:
    """A program to run, what its cases' names begin with, how many seconds it may take, the guest's kernel if it
    needs another one than the rest, and whether it may run beside others."""
    path: pathlib.Path
    label: str
    time_limit: int
    kernel: str = ""
    waits: bool = False


def run(task, env, logs, on_case, prefix=()):
    """Runs the task and calls on_case(outcome, name, reason, detail) for each test case and each other failure.

    `logs` is the folder for its output (.log), its report (.xml) and sanitizers' findings. `prefix` is put before the
    command. A crash, a time-out, a sanitizer's report (of the program or of one that it started) and processes that it
    left running are failures. Returns the outcomes.
    """
    program = task.path
    for old in logs.glob(f"{program.name}.*"):
        old.unlink()
    log, xml = logs / f"{program.name}.log", logs / f"{program.name}.xml"
    findings = logs / f"{program.name}.sanitizer"
    env = env | {key: f"{env.get(key, '')}:log_path={findings}".lstrip(":") for key in _SANITIZERS}
    outcomes = []

    def count(outcome, case, reason, detail):
        outcomes.append(outcome)
        on_case(outcome, f"{task.label}: {case}", reason, detail)

    reader = catch_report.CatchReport(count)
    command = [*prefix, program, "--reporter", "xml", "--durations", "yes", "--out", xml]
    try:
        problems = _run(command, env, log, xml, task.time_limit, reader, outcomes)
    except OSError as error:
        problems = [f"cannot be started: {error}"]
    reports = sorted(logs.glob(f"{findings.name}.*"))
    if reports:
        problems.append("sanitizer reports")
    if problems:
        if reader.current is not None:
            problems[0] += f" in “{reader.current}”"
        count(report.FAIL, "the program", "; ".join(problems), [line for path in reports for line in _tail(path)])
    if report.FAIL in outcomes and log.stat().st_size > 0:
        report.output(log, _tail(log))
    return outcomes


def end_all():
    """Ends what other threads run."""
    for leader in list(_running):
        session.end(leader)


def _run(command, env, log, xml, time_limit, reader, outcomes):
    """Returns what went wrong beside the cases."""
    xml.touch()
    place = tempfile.mkdtemp(prefix="onecopy-test.")
    try:
        with log.open("wb") as output, xml.open("rb") as written:
            process = subprocess.Popen(command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            _running.add(process.pid)
            try:
                in_time = _follow(process, written, reader, time.monotonic() + time_limit)
                left = session.stragglers(process.pid) if in_time else {}
            finally:
                session.end(process.pid)
                status = process.wait()
                _running.discard(process.pid)
            reader.feed(written.read())
    finally:
        shutil.rmtree(place, ignore_errors=True)
    problems = []
    if not in_time:
        problems.append(f"no end after {time_limit} s")
    elif status < 0:
        name = next((each.name for each in signal.Signals if each == -status), "a real-time signal")
        problems.append(f"ended by {name}")
    elif reader.current is not None:
        problems.append(f"ended with status {status}")
    elif not outcomes:
        problems.append(f"ran no test case (status {status})")
    elif status != 0 and report.FAIL not in outcomes and not (
            status == _ALL_SKIPPED and set(outcomes) == {report.SKIP}):
        problems.append(f"ended with status {status} although no case failed")
    elif reader.broken or not reader.complete:
        problems.append(f"its report is unreadable: {reader.broken or 'it has no end'}")
    if left:
        problems.append("left running: " + ", ".join(f"{name} ({pid})" for pid, name in left.items()))
    return problems


def _follow(process, written, reader, deadline):
    """Feeds the reader until the process ends. False when the deadline came first."""
    while True:
        try:
            process.wait(timeout=0.05)
            return True
        except subprocess.TimeoutExpired:
            reader.feed(written.read())
            if time.monotonic() >= deadline:
                return False


def _tail(path):
    lines = path.read_text(errors="replace").splitlines()
    if len(lines) > _LOG_LINES:
        return [f"… {len(lines) - _LOG_LINES} lines before, in {path} …"] + lines[-_LOG_LINES:]
    return lines

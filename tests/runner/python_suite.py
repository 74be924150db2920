"""The suites of the Python package: its wheel is built, installed beside other people's packages, and tested by pytest.

`python` has the packages of tests/python/requirements.txt (150 MB are fetched, once); `python-matrix` also torch with its
CUDA libraries, Ray, CuPy, Numba and RMM (3 GB), and vLLM's Python files (700 MB are fetched for them). All of it is kept in
the build folder.
"""

import dataclasses
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import report
import session

# What each has to have, beside the wheel.
_REQUIREMENTS = {
    "python": "requirements.txt",
    "python-matrix": "requirements-matrix.txt",
}
_WITHOUT_DEPENDENCIES = "requirements-alone.txt"  # which ask for more than what is used of them
TARGETS = ("onecopyd", "onecopy", "onecopy_fake_cuda")  # of the build, as CMake has them
_BUILD_SECONDS = 3600
_TIME_LIMIT = 1500
_LOG_LINES = 200
_LEAK = "nanobind: leaked"  # what pytest's own process says at its end, as in tests/python/conftest.py


@dataclasses.dataclass(frozen=True)
class _Task:
    """A file of tests, and what its cases' names begin with."""
    path: pathlib.Path
    label: str


class _Failed(Exception):
    """What failed, and the last lines of what it said."""

    def __init__(self, what, log):
        super().__init__(what)
        self.lines = log.read_text(errors="replace").splitlines()[-60:]


def run(root, name, build, logs, env, outcome, attempts=None):
    """Runs the suite with the daemons of `build`. `logs` is the folder for output. `attempts` are the run's second
    attempts, if it has them: of files of tests, each run whole."""
    try:
        wheel = _build_wheel(root, logs)
        python = _environment(root, name, wheel, logs)
        if name == "python-matrix":
            _step("fetching vLLM's files", [python, root / "tests/python/fetch_vllm.py"], logs / "fetch-vllm.log")
    except _Failed as failure:
        outcome.case(report.FAIL, name, str(failure), failure.lines)
        return
    env = dict(env, ONECOPY_BIN_DIR=str(build / "bin"))
    options = ["-p", "no:cacheprovider"]
    tasks = [_Task(path, f"{name}/{path.stem}") for path in sorted((root / "tests/python").glob("test_*.py"))]

    def run_files(chosen, on_case):
        files = [task.path for task in chosen]
        _tests(name, [python, "-m", "pytest", *options, *files], env, logs / "pytest", outcome, on_case)

    if attempts:
        attempts.run(tasks, run_files)
    else:
        run_files(tasks, outcome.case)
    if name == "python":  # what needs no package of ours has a virtual environment of its own
        command = [root / "tests/python/grpc_only/run", build / "bin", *options]
        _tests(name, command, env, logs / "grpc_only", outcome, outcome.case)


def _tests(name, command, env, record, outcome, on_case):
    """Runs pytest and gives each case to `on_case`. `record` is the path of what it writes, without a suffix."""
    log, results = record.with_suffix(".log"), record.with_suffix(".xml")
    results.unlink(missing_ok=True)
    place = tempfile.mkdtemp(prefix="onecopy-test.")
    try:
        problem = _run([*command, "--junitxml", results], place, env, log)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if not problem and _LEAK in log.read_text(errors="replace"):
        problem = "references to objects of the native module were lost"
    failed = _report(name, results, on_case) if results.exists() else True
    if problem or not results.exists():
        outcome.case(report.FAIL, f"{name}/{record.name}", problem or "pytest wrote no report")
    if problem or failed:
        report.output(log, log.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _step(what, command, log):
    """Runs it to its end; its standard output."""
    started = time.monotonic()
    with log.open("w") as errors:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                              check=False, timeout=_BUILD_SECONDS)
    if done.returncode != 0:
        raise _Failed(what, log)
    print(f"{what}: {time.monotonic() - started:.0f} s", flush=True)
    return done.stdout


def _build_wheel(root, logs):
    written = _step("building the wheel", [root / "client/python/build-wheel"], logs / "wheel.log")
    return pathlib.Path(written.splitlines()[-1])


def _environment(root, name, wheel, logs):
    """A Python with the wheel and all that the suite wants beside it."""
    place = root / "build" / "python" / f"venv-{name}"
    folder = root / "tests" / "python"
    wheels = folder / _REQUIREMENTS[name]
    alone = folder / _WITHOUT_DEPENDENCIES
    python = place / "bin" / "python"
    wanted = hashlib.sha256(wheels.read_bytes() + alone.read_bytes() + sys.version.encode()).hexdigest()
    stamp = place / "stamp"
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    fetch = [*pip, "--require-hashes", "--only-binary", ":all:"]
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(place, ignore_errors=True)
        _step("making a virtual environment", [sys.executable, "-m", "venv", place], logs / "venv.log")
        _step("fetching packages from PyPI", [*fetch, "-r", wheels], logs / "fetch.log")
        _step("fetching more packages", [*fetch, "--no-deps", "-r", alone], logs / "fetch-alone.log")
        stamp.write_text(wanted)
    _step("installing the wheel", [*pip, "--no-index", "--no-deps", "--force-reinstall", wheel], logs / "install.log")
    return python


def _run(command, place, env, log):
    """Returns what went wrong beside the cases."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        left, in_time = {}, True
        try:
            process.wait(timeout=_TIME_LIMIT)
            left = session.stragglers(process.pid)
        except subprocess.TimeoutExpired:
            in_time = False
        finally:
            session.end(process.pid)
            status = process.wait()
    if not in_time:
        return f"no end after {_TIME_LIMIT} s"
    if status not in (0, 1):  # 1: cases failed
        return f"pytest ended with status {status}"
    if left:
        return "left running: " + ", ".join(f"{each} ({pid})" for pid, each in left.items())
    return ""


def _report(name, results, on_case):
    """Gives each case to `on_case`. Whether one failed."""
    failed = False
    for case in xml.etree.ElementTree.parse(results).getroot().iter("testcase"):
        label = _label(name, case)
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped")
        if problem is not None:
            failed = True
            on_case(report.FAIL, label, "", (problem.text or "").splitlines()[-30:])
        elif skipped is not None:
            on_case(report.SKIP, label, skipped.get("message", ""), ())
        else:
            on_case(report.OK, label, "", ())
    return failed


def _label(name, case):
    """As SUITE/FILE: [CLASS.]TEST. The file is the last part of the class's name that is a file's of tests."""
    parts = case.get("classname").split(".")
    file = max((n for n, part in enumerate(parts) if part.startswith("test_")), default=len(parts) - 1)
    return f"{name}/{parts[file]}: {'.'.join([*parts[file + 1:], case.get('name')])}"

"""Builds and runs the test suites. tests/run is the door to this."""

import argparse
import concurrent.futures
import pathlib
import resource
import signal
import sys

import build as builder
import checks
import environment
import fuzz
import guest
import kubernetes_suite
import packages_suite
import program
import python_suite
import report
import second_attempt
import suites

_SLOWER_UNDER_SANITIZERS = 2
_DESCRIPTORS = 16384  # open at a time; a session begins with 1,024 that may be raised


def main():
    parser = argparse.ArgumentParser(prog="tests/run")
    parser.add_argument("--require", action="append", default=[])
    parser.add_argument("--preset", default="release")
    parser.add_argument("--prebuilt", type=pathlib.Path)
    parser.add_argument("--fuzz-seconds", type=int, default=fuzz.SECONDS)
    parser.add_argument("--second-attempt", action="store_true")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("suites", nargs="*")
    arguments = parser.parse_intermixed_args()
    # A thousand buffers are some tests' matter; what tests a lower limit sets it.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _DESCRIPTORS:
        most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    # Ended from outside, end what runs too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outcome = report.Report()
    try:
        _run(arguments, outcome)
    except (builder.BuildFailed, suites.UnknownSuite) as failure:
        outcome.case(report.FAIL, "tests/run", str(failure))
    except KeyboardInterrupt:
        outcome.case(report.FAIL, "tests/run", "interrupted")
        outcome.finish()
        return 130
    return outcome.finish()


def _run(arguments, outcome):
    root = pathlib.Path(__file__).resolve().parents[2]
    prebuilt = arguments.prebuilt is not None
    preset = "release" if prebuilt else arguments.preset
    sanitized = "" if preset == "release" else preset
    build = arguments.prebuilt.resolve() if prebuilt else builder.configure(root, preset)
    found = suites.load(build, prebuilt)
    if preset == fuzz.PRESET:  # its programs are no others'
        arguments.suites = arguments.suites or [fuzz.SUITE]
    wanted = suites.select(found, arguments.suites, arguments.require, checks_too=not (prebuilt or sanitized))
    if not prebuilt:
        _build(root, build, preset, found, wanted, everything=not arguments.suites)
    if arguments.build_only:
        return
    logs = environment.log_folder(build)
    env = environment.variables(build, prebuilt, sanitized)
    attempts = second_attempt.SecondAttempts(outcome) if arguments.second_attempt else None
    for name in wanted:
        outcome.suite(name)
        (logs / name).mkdir(exist_ok=True)
        required = name in arguments.require
        if preset == fuzz.PRESET:
            fuzz.run(root, build, found.get(name, ()), arguments.fuzz_seconds, logs / name, env, outcome)
        elif name == suites.CHECKS:
            checks.run(root, None if prebuilt or sanitized else build, logs / name, env, required, outcome)
        elif name == suites.PACKAGES:
            _run_packages(root, preset, prebuilt, logs / name, required, outcome)
        elif name == suites.KUBERNETES:
            kubernetes_suite.run(root, build, logs / name, env, required, outcome)
        elif name in suites.PYTHON:
            _run_python(root, name, build, preset, prebuilt, logs / name, env, required, outcome, attempts)
        else:
            _run_suite(root, name, found.get(name, ()), required, preset, env, logs / name, outcome, attempts)


def _build(root, build, preset, found, wanted, everything):
    """Builds what the wanted suites need, and all that there is if that is asked for."""
    targets = {each.target for name in wanted for each in found.get(name, ()) if not each.skip_reason(preset)}
    if suites.CHECKS in wanted:
        targets.add(suites.CHECKED)
    if set(suites.PYTHON) & set(wanted):
        targets.update(python_suite.TARGETS)
    if suites.KUBERNETES in wanted:
        targets.update(kubernetes_suite.TARGETS)
    if preset != "tsan" and everything:
        builder.compile_targets(root, build, [])
    elif targets:
        builder.compile_targets(root, build, sorted(targets))


def _run_python(root, name, build, preset, prebuilt, logs, env, required, outcome, attempts):
    if prebuilt or preset != "release":
        why = "it builds its wheel from these sources" if prebuilt else "Python is not built with a sanitizer"
        outcome.case(report.FAIL if required else report.SKIP, name, why)
        return
    python_suite.run(root, name, build, logs, env, outcome, attempts)


def _run_packages(root, preset, prebuilt, logs, required, outcome):
    if prebuilt or preset != "release":
        why = "it builds what it packs" if prebuilt else "packages are not built with a sanitizer"
        outcome.case(report.FAIL if required else report.SKIP, suites.PACKAGES, why)
        return
    packages_suite.run(root, logs, required, outcome)


def _run_suite(root, name, programs, required, preset, env, logs, outcome, attempts):
    cannot = report.FAIL if required else report.SKIP
    if not programs:
        outcome.case(cannot, name, "this build has no such programs")
    tasks = []
    for each in programs:
        label = f"{name}/{each.path.name}"
        reason = each.skip_reason(preset)
        if reason:
            outcome.case(cannot, label, reason)
        elif not each.path.exists():
            outcome.case(report.FAIL, label, f"{each.path} is missing from the build")
        else:
            slower = _SLOWER_UNDER_SANITIZERS if preset != "release" else 1
            tasks.append(program.Task(each.path, label, each.time_limit * slower, each.kernel, each.waits))

    def run(tasks, on_case):
        if name in suites.IN_GUEST:
            return guest.run(root, tasks, env, preset, logs, on_case)
        prefix = environment.command_prefix(preset)
        return _run_programs(tasks, lambda task: program.run(task, env, logs, on_case, prefix))

    try:
        outcomes = attempts.run(tasks, run) if attempts else run(tasks, outcome.case)
    except guest.Cannot as reason:
        outcome.case(cannot, name, str(reason))
        return
    for label, of_program in outcomes.items():
        if required and set(of_program) == {report.SKIP}:
            outcome.case(report.FAIL, label, "all of it was skipped, and it is required")


def _run_programs(tasks, run):
    """One after the other; those that mostly wait, beside them."""
    waiting = [task for task in tasks if task.waits]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(waiting))) as pool:
        try:
            beside = {task.label: pool.submit(run, task) for task in waiting}
            outcomes = {task.label: run(task) for task in tasks if not task.waits}
            return outcomes | {label: future.result() for label, future in beside.items()}
        except BaseException:  # told to end: the pool waits for what runs
            program.end_all()
            raise


if __name__ == "__main__":
    sys.exit(main())

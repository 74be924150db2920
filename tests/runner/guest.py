"""Runs a suite's programs one after the other in the guest that has RDMA devices (tests/rdma): in one boot of it, and
in one more for each other kernel that some of them need."""

import json
import os
import subprocess
import sys

import report
import session

_KERNELS = ("backports", "stable")  # the first one has udmabuf; without it, the tests skip what needs that
_BOOT_SECONDS = 180  # under software emulation on a busy machine
_PROGRAM_SECONDS = 30  # beside a program's own time: its start, and the end of what it leaves running
_END_SECONDS = 10  # from the last line of output to the end
_TIME_OUT = 124  # run-in-guest's status for it
_MEMORY_MIB = 3072
_CPUS = 4  # at most
# What programs in the guest get of the environment: nothing that is about this machine or this user.
_VARIABLES = ("ONECOPY_", "UCX_", "RDMAV_", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
              "TSAN_OPTIONS")


class Cannot(Exception):
    """Why the guest cannot run here."""


def prepare(root, wanted=""):
    """Downloads and unpacks a kernel, the wanted one or any, where that has not been done. Returns its name; raises
    Cannot."""
    reasons = []
    for kernel in (wanted,) if wanted else _KERNELS:
        done = subprocess.run([_script(root), "-p", "-k", kernel], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", check=False)
        if done.returncode == 0:
            return kernel
        reason = (done.stderr.strip() or f"run-in-guest ended with status {done.returncode}").splitlines()[-1]
        if reason not in reasons:
            reasons.append(reason)
    raise Cannot("; ".join(reasons))


def run(root, tasks, env, preset, logs, on_case):
    """Runs the tasks and calls on_case(outcome, name, reason, detail) for each case and each other failure.

    `logs` is the folder for the output of the programs (see program.py) and of the guest: guest-console, the kernel's,
    and guest-output. Returns the outcomes by label. Raises Cannot.
    """
    outcomes = {}
    for wanted in sorted({task.kernel for task in tasks}):
        of_boot = logs / wanted
        of_boot.mkdir(exist_ok=True)
        here = [task for task in tasks if task.kernel == wanted]
        outcomes.update(_boot(root, prepare(root, wanted), here, env, preset, of_boot, on_case))
    return outcomes


def _boot(root, kernel, tasks, env, preset, logs, on_case):
    """run(), in one boot of that kernel."""
    plan = write_plan(tasks, env, preset, logs)
    time_limit = _BOOT_SECONDS + sum(task.time_limit + _PROGRAM_SECONDS for task in tasks)
    command = [_script(root), "-k", kernel, "-c", str(min(_CPUS, len(os.sched_getaffinity(0)))),
               "-m", str(_MEMORY_MIB), "-t", str(time_limit), "-o", logs, "--",
               sys.executable, "-B", root / "tests/runner/in_guest.py", plan]
    return follow(command, tasks, logs, on_case)


def write_plan(tasks, env, preset, logs):
    """Writes down what in_guest.py is to do. Returns the file."""
    plan = {"tasks": [{"path": str(task.path), "label": task.label, "time_limit": task.time_limit} for task in tasks],
            "env": {key: value for key, value in env.items() if key.startswith(_VARIABLES)},
            "preset": preset, "logs": str(logs)}
    path = logs / "guest-plan"
    path.write_text(json.dumps(plan, indent=1))
    return path


def follow(command, tasks, logs, on_case):
    """Runs `command`, which speaks as in_guest.py does; its other output goes to guest-output. Otherwise as run()."""
    listener = _Listener(tasks, on_case)
    log = logs / "guest-output"
    with log.open("w") as output, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                                   stderr=output, text=True, errors="replace",
                                                   start_new_session=True) as process:
        try:
            for line in process.stdout:
                if not listener.hear(line):
                    output.write(line)
                    output.flush()
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # what it has said counts
        finally:
            session.end(process.pid)
            status = process.wait()
    ended = "the guest's time ran out" if status == _TIME_OUT else f"the guest ended with status {status}"
    if listener.finish(ended):
        report.output(log, log.read_text(errors="replace").splitlines()[-100:])
    return listener.outcomes


class _Listener:
    """Turns the lines of in_guest.py into calls of on_case."""

    def __init__(self, tasks, on_case):
        self.outcomes = {task.label: [] for task in tasks}
        self._on_case = on_case
        self._unfinished = [task.label for task in tasks]

    def hear(self, line):
        """False where the line is somebody else's output."""
        try:
            event = json.loads(line)
            kind, label, values = event["event"], event["label"], event["values"]
        except (ValueError, KeyError, TypeError):
            return False
        if label not in self._unfinished:
            return False
        if kind == "case":
            self.outcomes[label].append(values[0])
            self._on_case(*values)
        elif kind == "output":
            report.output(*values)
        elif kind == "end":
            self._unfinished.remove(label)
        return True

    def finish(self, why):
        """Reports each program that has not come to its end as failed. Returns their labels."""
        for label in self._unfinished:
            self.outcomes[label].append(report.FAIL)
            self._on_case(report.FAIL, f"{label}: the program", f"{why} before this program did", ())
        return self._unfinished


def _script(root):
    return root / "tests/rdma/guest/run-in-guest"

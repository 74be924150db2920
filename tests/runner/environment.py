"""What the test programs find in their environment, and where their output goes."""

import os
import pathlib
import shutil
import subprocess
import tempfile

_SUPPRESSIONS = pathlib.Path(__file__).resolve().parent.parent / "support/tsan.supp"
_SANITIZERS = {
    # Without the last one, gcc 12's LeakSanitizer can fail at the end of a process that has opened UCX: it mistakes what
    # UCX keeps for each thread.
    "ASAN_OPTIONS": "protect_shadow_gap=0:detect_leaks=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f'second_deadlock_stack=1:suppressions="{_SUPPRESSIONS}"',
}


def variables(build, prebuilt, sanitized):
    """The environment of test programs. A user's own sanitizer options come last, and so win."""
    env = dict(os.environ, ONECOPY_BIN_DIR=str(build / "bin"))
    env.pop("ONECOPY_RUN_DIR", None)  # which would lead them to somebody's daemon
    if prebuilt and (build / "lib").is_dir():
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(build / "lib"), env.get("LD_LIBRARY_PATH")]))
    if sanitized:
        for key, value in _SANITIZERS.items():
            env[key] = ":".join(filter(None, [value, env.get(key)]))
    return env


def command_prefix(sanitized):
    """What is put before a program's command."""
    # ThreadSanitizer's fixed address map and a kernel that spreads mappings over 32 bits do not go together.
    without_aslr = ["setarch", "-R"]
    if sanitized == "tsan" and shutil.which("setarch"):
        if subprocess.run([*without_aslr, "true"], capture_output=True, check=False).returncode == 0:
            return without_aslr
    return []


def log_folder(build):
    """`test-logs` in the build folder; somewhere temporary where that is read-only."""
    place = build / "test-logs"
    try:
        place.mkdir(exist_ok=True)
    except OSError:
        return pathlib.Path(tempfile.mkdtemp(prefix="onecopy-test-logs."))
    return place if os.access(place, os.W_OK) else pathlib.Path(tempfile.mkdtemp(prefix="onecopy-test-logs."))

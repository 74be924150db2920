"""The suite of the manifests of deploy/kubernetes (tests/kubernetes): by kubectl, the API's schemas, and the programs of the build.

Debian's Python runs it, for which bootstrap installs what it imports.
"""

import json
import subprocess

import report

TARGETS = ("onecopyd", "onecopy", "onecopy-holder", "onecopy_mapper", "onecopy_registrar")  # of the build, as CMake has them
_PYTHON = "/usr/bin/python3"
_TIME_LIMIT = 300
_LOG_LINES = 60


def run(root, build, logs, env, required, outcome):
    """Runs the suite. `logs` is the folder for output."""
    deps = root / "build/deps"
    kubectl, schemas = deps / "kubectl/kubectl", deps / "kubernetes-schemas"
    if not (kubectl.exists() and schemas.exists()):
        outcome.case(report.FAIL if required else report.SKIP, "kubernetes", "deploy/bootstrap --for kubernetes was not run")
        return
    log = logs / "log"
    command = [_PYTHON, root / "tests/kubernetes", kubectl, schemas, build / "bin"]
    with log.open("w") as errors:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                  check=False, env=env, timeout=_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            outcome.case(report.FAIL, "kubernetes", f"not at its end after {_TIME_LIMIT} s")
            return
    for line in done.stdout.splitlines():
        case = json.loads(line)
        outcome.case(case["outcome"], f"kubernetes: {case['name']}", case["reason"], case["detail"])
    if done.returncode != 0:
        outcome.case(report.FAIL, "kubernetes", f"it ended with status {done.returncode}",
                     log.read_text(errors="replace").splitlines()[-_LOG_LINES:])

"""The suite `checks`: what can be said of the sources, and of an installation, without running them.

Each module here has NAME, what a reader sees, and run(context), which returns its findings as lines (none: it
passed) or raises CannotRun.
"""

import importlib
import traceback

import report
from checks.context import CannotRun, Context

_MODULES = ("formatting", "layers", "python_layers", "protos", "tracked", "spelling", "phrases", "facts", "shell", "self_tests",
            "cuda_header", "unit_file", "sandbox", "installation", "tidy")


def run(root, build, logs, env, required, outcome):
    """Runs them all. `build` is the finished build's folder, or None; `required` makes what cannot run a failure."""
    context = Context(root, build, logs, env)
    for module_name in _MODULES:
        module = importlib.import_module(f"checks.{module_name}")
        name = f"checks: {module.NAME}"
        try:
            findings = module.run(context)
        except CannotRun as reason:
            outcome.case(report.FAIL if required else report.SKIP, name, str(reason))
            continue
        except Exception:  # one broken check is no reason to leave out the others
            findings = traceback.format_exc().splitlines()
        outcome.case(report.FAIL if findings else report.OK, name, detail=findings)

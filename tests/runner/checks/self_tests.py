"""The tests of the runner and of these checks: a check that cannot fail proves nothing."""

import sys

from checks.context import lines_of

NAME = "the runner and the checks find what is planted"


def run(context):
    env = dict(context.env, ONECOPY_BUILD_DIR=str(context.finished_build()), PYTHONDONTWRITEBYTECODE="1")
    runner = context.root / "tests/runner"
    return lines_of([sys.executable, "-m", "unittest", "discover", "-s", "self_test", "-t", "."], runner, env)

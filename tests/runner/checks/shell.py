"""shellcheck over every script."""

from checks.context import lines_of, tool

NAME = "scripts pass shellcheck"


def run(context):
    scripts = [name for name in context.files() if _is_script(context.root / name)]
    return lines_of([tool("shellcheck"), "--format=gcc", *scripts], context.root)


def _is_script(path):
    with path.open("rb") as file:
        first = file.readline(80)
    return first.startswith(b"#!") and (b"bash" in first or first.rstrip().endswith(b"/sh"))

"""clang-format, of the one version whose output the sources follow."""

from checks.context import lines_of, tool

NAME = "C++ is formatted as clang-format 14 does it"


def run(context):
    files = context.files(".cc", ".h", ".cu", ".cuh")
    findings = lines_of([tool("clang-format-14"), "--dry-run", "-Werror", "--ferror-limit=1", *files], context.root)
    return [line for line in findings if ": error: " in line] or findings

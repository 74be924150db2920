"""codespell over every text; what it takes wrongly for a mistake is listed in .codespellrc."""

from checks.context import lines_of, tool

NAME = "no common misspelling"


def run(context):
    return lines_of([tool("codespell"), *context.files()], context.root)

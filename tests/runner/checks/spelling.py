"""codespell over every text; what it takes wrongly for a mistake is listed in .codespellrc."""

from checks.context import lines_of, tool

NAME = "no common misspelling"


def run(context):
    texts = [name for name in context.files() if not name.startswith("tests/fuzz/corpus/")]  # whatever was found
    return lines_of([tool("codespell"), *texts], context.root)

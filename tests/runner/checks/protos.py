"""Every field of the protocol says what it holds."""

import re

NAME = "every field of the protocol has a comment"

_FIELD = re.compile(r"^\s*(?:optional\s+|repeated\s+)?(?:map\s*<[^>]*>|[.\w]+)\s+(\w+)\s*=\s*\d+\s*(?:\[.*\])?;(.*)$")
_OPENS = re.compile(r"^\s*(message|enum|oneof|service)\s+(\w+)\s*\{")


def run(context):
    return [finding for name in context.files(".proto")
            for finding in undocumented(name, (context.root / name).read_text())]


def undocumented(name, text):
    """Fields without a comment on the line above or behind them, as `file:line: message.field …`."""
    findings = []
    blocks = []  # kind and name of those that are open
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        opened = _OPENS.match(line)
        field = _FIELD.match(line)
        if opened:
            blocks.append(opened.groups())
        if field and blocks and blocks[-1][0] in ("message", "oneof"):
            if not before.strip().startswith("//") and "//" not in field.group(2):
                path = ".".join([block for kind, block in blocks if kind == "message"] + [field.group(1)])
                findings.append(f"{name}:{number}: {path} has no comment")
        if "}" in line.split("//")[0] and blocks:
            blocks.pop()
        before = line
    return findings

"""Phrases that make a reader begin again, in what people read: messages, help, documents, contracts of the API.

Looked at are texts in quotes of C++ and Python, whole documents, protocol files, and headers and modules that users
read. A text that must have such words is not one of these: name it in _ALLOWED.
"""

import ast
import re

NAME = "plain English"

_REFUSED = (
    (re.compile(r"\b(?<!there )(?:is|are|was|were) no (?!longer\b|more than\b|one\b)", re.IGNORECASE), "is not a …"),
    (re.compile(r"\b(?:whoever|whomever)\b", re.IGNORECASE), "name the one that does it"),
    (re.compile(r"\bnobody\b", re.IGNORECASE), "no user, no program, or the active voice"),
    (re.compile(r"\bto be had\b", re.IGNORECASE), "available"),
    (re.compile(r"\bbut for\b", re.IGNORECASE), "except for"),
    (re.compile(r"\banew\b", re.IGNORECASE), "again"),
    (re.compile(r"\ball the same\b", re.IGNORECASE), "anyway"),
    (re.compile(r"\b(?:let|lets|letting) go of\b", re.IGNORECASE), "release"),
    (re.compile(r"\bfor want of\b", re.IGNORECASE), "because there is no …"),
)
_IN_MESSAGES = (
    (re.compile(r"\bwho\b"), "name the one that does it"),
    (re.compile(r"\bis said to\b"), "name the field that says it"),
)
_PROGRAMS = ("bench/", "client/", "daemon/", "proto/", "transport/", "values/")
_PUBLIC = ("client/lib/include/", "client/python/onecopy/", "proto/onecopy/", "values/onecopy/")
_ALLOWED = {"nobody", "who", "onecopy-who"}  # a value of the audit log, and names of fields

# A string of C++, raw or not; comments and characters first, as quotes in them begin none.
_CPP = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)+'|R\"(\w*)\((?P<raw>.*?)\)\1\"|\"(?P<text>(?:[^\"\\\n]|\\.)*)\"",
                  re.DOTALL)


def run(context):
    findings = []
    for name in context.files(".cc", ".h", ".cu", ".md", ".proto", ".py"):
        if not (name.endswith(".md") or name.startswith(_PROGRAMS)):
            continue
        text = (context.root / name).read_text()
        if name.endswith(".md"):  # without names of values
            text = re.sub(r"`[^`\n]*`", lambda code: " " * len(code.group()), text)
        if name.endswith(".md") or name.startswith(_PUBLIC):
            findings += _found(name, 1, text, _REFUSED)
        for line, message in _messages(name, text):
            if message not in _ALLOWED:
                # What a public file says was looked at as a whole.
                findings += _found(name, line, message, _IN_MESSAGES if name.startswith(_PUBLIC) else
                                   _REFUSED + _IN_MESSAGES)
    return findings


def _found(name, line, text, refused):
    return [f"{name}:{line + text.count(chr(10), 0, match.start())}: \"{match.group().strip()}\": {instead}"
            for phrase, instead in refused for match in phrase.finditer(text)]


def _messages(name, text):
    """Line and text of each string; those that C++ puts together are one."""
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
    elif not name.endswith((".md", ".proto")):
        line, message, end = 0, "", None
        for match in _CPP.finditer(text):
            part = match.group("raw") if match.group("raw") is not None else match.group("text")
            if part is None:
                continue
            if end is not None and not text[end:match.start()].strip():
                message += part
            else:
                if message:
                    yield line, message
                line, message = text.count("\n", 0, match.start()) + 1, part
            end = match.end()
        if message:
            yield line, message

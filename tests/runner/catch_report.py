"""Reads what Catch2, version 2 or 3, writes with its xml reporter, while it is being written."""

import xml.parsers.expat

import report

_ROOTS = ("Catch", "Catch2TestRun")  # of versions 2 and 3
_FAILURES = ("Expression", "Failure", "Exception", "FatalErrorCondition")


class CatchReport:
    """Calls `on_case(outcome, name, reason, detail)` at the end of each test case.

    `current` is the name of the case that has begun and not ended, or None: after a crash, where it happened.
    `complete` tells whether the report has reached its end, `broken` why it cannot be read any further.
    """

    def __init__(self, on_case):
        self.current = None
        self.complete = False
        self.broken = None
        self._on_case = on_case
        self._sections = []
        self._text = []
        self._infos = []
        self._failure = None  # the failing assertion being read
        self._parser = xml.parsers.expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append

    def feed(self, data):
        """The next bytes of the report. A program that dies leaves it incomplete; that is no error here."""
        # What follows the end is from a child that the program has left: it inherited the file.
        if self.complete or self.broken:
            return
        try:
            self._parser.Parse(data)
        except xml.parsers.expat.ExpatError as error:
            if not self.complete:
                self.broken = str(error)

    def _start(self, tag, attributes):
        self._text.clear()
        if tag == "TestCase":
            self.current = attributes["name"]
            self._sections, self._infos, self._detail, self._skip = [], [], [], None
        elif tag == "Section":
            self._sections.append(attributes["name"])
        elif tag in _FAILURES and self._failure is None:
            place = f"{attributes.get('filename', '?')}:{attributes.get('line', '?')}"
            self._failure = {"tag": tag, "place": place, "type": attributes.get("type", "")}
        elif tag == "OverallResult":
            self._result = attributes["success"] == "true"

    def _end(self, tag):
        text = "".join(self._text).strip()
        self._text.clear()
        if tag == "Info":
            self._infos.append(text)
        elif tag == "Warning" and text.startswith("SKIP: "):
            self._skip = text[len("SKIP: "):]
        elif tag == "Skip":
            self._skip = text or "no reason given"
        elif tag in ("Original", "Expanded"):
            self._failure[tag] = text
        elif self._failure is not None and tag in _FAILURES:
            if tag != self._failure["tag"]:
                self._failure[tag] = text  # an exception inside an assertion
            else:
                self._describe(self._failure, text)
                self._failure, self._infos = None, []
        elif tag == "Section":
            self._sections.pop()
        elif tag == "TestCase":
            self._finish_case()
        elif tag in _ROOTS:
            self.complete = True

    def _describe(self, failure, text):
        place = failure["place"]
        if self._sections:
            place += " in " + " / ".join(self._sections)
        self._detail.append(place)
        if failure["type"]:  # an assertion, not a crash somewhere
            self._detail.append(f"  {failure['type']}( {failure['Original']} )")
            if failure["Expanded"] != failure["Original"]:
                self._detail += ["  with " + line for line in failure["Expanded"].splitlines()]
            text = failure.get("Exception") or failure.get("FatalErrorCondition", "")
        self._detail += ["  " + line for line in text.splitlines()]
        for info in self._infos:
            self._detail += ["  info: " + line for line in info.splitlines()]

    def _finish_case(self):
        name, self.current = self.current, None
        if self._detail or not self._result:
            self._on_case(report.FAIL, name, "", self._detail)
        elif self._skip is not None:
            self._on_case(report.SKIP, name, self._skip, ())
        else:
            self._on_case(report.OK, name, "", ())

"""What the documents list and count is what the code has: log messages, reasons, limits, bounds, paths, fuzz targets,
findings, measured rates.

Metrics are compared with a real daemon (tests/cluster/metrics_test.cc), and the findings' names with the doctor's README
(tests/unit/doctor).
"""

import importlib.util
import re

NAME = "documents and code list the same"

_LEVELS = {"Info": "info", "Warning": "warning", "Error": "error"}
_CODE = re.compile(r"[A-Z0-9]+(?:_[A-Z0-9]+)+")


# A constant, the file that has it, and how a document says it.
_BOUNDS = (
    ("kMaxRanges", "values/onecopy/range.h", "README.md", "up to {} ranges"),
    ("kMaxRanges", "values/onecopy/range.h", "docs/operate.md", "| ranges in one transfer | {} |"),
    ("kMaxRanges", "values/onecopy/range.h", "docs/cpp.md", "A request can have {} ranges"),
    ("kMaxBuffers", "values/onecopy/range.h", "docs/operate.md", "pairs of buffers that its ranges use | {} |"),
    ("kMaxPeers", "daemon/engine/peering/peer_addresses.cc", "docs/operate.md", "| peers | {} |"),
    ("kMaxPeersTold", "daemon/engine/api/figures.h", "docs/metrics.md", "{} peers have"),
)


def run(context):
    checks = (log_messages, reasons, limits, bounds, ladder, counts, rates, measured)
    return [finding for check in checks for finding in check(context)]


def log_messages(context):
    """operate.md's log tables have each message of level info and above, and no message that no program writes."""
    page = _Page(context, "docs/operate.md")
    rows = [(number, levels.split(", "), re.split(r" (?:\w+=|…)", message)[0])
            for number, levels, message in page.rows(r"\| ((?:info|warning|error)(?:, warning)?) \| `([^`]*)`")]
    listed = {message for _, _, message in rows}
    written = ""
    for name in context.files(".cc"):
        if not name.startswith("daemon/"):
            continue
        text = re.sub(r'"\s*\n\s*"', "", (context.root / name).read_text())  # one literal, on several lines
        written += text
        for call in re.finditer(r'\blog::(Info|Warning|Error)\(\s*"([^"]*)"', text):
            level, message = _LEVELS[call.group(1)], call.group(2)
            if message.endswith(" "):  # a state follows
                found = any(each.startswith(message) and level in levels for _, levels, each in rows)
            else:
                found = any(each == message and level in levels for _, levels, each in rows)
            if not found:
                yield f"{name}: the log message \"{message}\" ({level}) is not in docs/operate.md"
    for number, _, message in rows:
        state = message.rpartition(" ")[0] + " "  # "peer CONNECTED" is written as "peer " and a state
        if f'"{message}"' not in written and f'log::Info("{state}"' not in re.sub(r"\(\s+", "(", written):
            yield f"{page.name}:{number}: no program writes the log message \"{message}\""
    if len(listed) < 30:
        yield f"{page.name}: its tables of log messages cannot be read: {len(listed)} messages found"


def reasons(context):
    """api.md's table has each reason once; those of the Python package, which it says of them, are in no header."""
    page = _Page(context, "docs/api.md")
    listed = {}
    for number, reason, rest in page.rows(r"\| `([A-Z0-9_]+)` \| (.*)"):
        if reason in listed:
            yield f"{page.name}:{number}: {reason} is listed twice"
        listed[reason] = (number, rest)
    known = set(re.findall(r'string_view k\w+\s*=\s*"([A-Z0-9_]+)"', (context.root / "values/onecopy/reasons.h").read_text()))
    for reason in sorted(known - listed.keys()):
        yield f"{page.name}: the reason {reason} of values/onecopy/reasons.h is missing"
    for reason in sorted(listed.keys() - known):
        number, rest = listed[reason]
        if "only from the Python package" not in rest:
            yield f"{page.name}:{number}: values/onecopy/reasons.h does not have the reason {reason}"


def limits(context):
    """operate.md's table of [limits] has each limit, with its defaults."""
    page = _Page(context, "docs/operate.md")
    text = (context.root / "daemon/config/sections.cc").read_text()
    known = {name: (_number(each), _number(total))
             for name, each, total in re.findall(r'AddLimit\(\s*&keys, "(\w+)", \{([\d\']+), ([\d\']+)\}', text)}
    if len(known) < 15:
        yield f"daemon/config/sections.cc: its limits cannot be read: {len(known)} found"
    listed = {name: (number, (_number(each), _number(total)))
              for number, name, each, total in page.rows(r"\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \|")}
    for name, defaults in known.items():
        number, said = listed.get(name, (1, None))
        if said != defaults:
            yield f"{page.name}:{number}: the limit {name} is {defaults} by default, and here {said}"
    for name in listed.keys() - known.keys():
        yield f"{page.name}:{listed[name][0]}: there is no limit {name}"


def bounds(context):
    """Bounds that are constants of the code."""
    for name, header, document, words in _BOUNDS:
        value = re.search(rf"\b{name} = ([\d']+);", (context.root / header).read_text())
        if not value:
            yield f"{header}: {name} cannot be read"
        elif words.format(f"{_number(value.group(1)):,}") not in " ".join((context.root / document).read_text().split()):
            yield f"{document}: it does not have \"{words.format(f'{_number(value.group(1)):,}')}\", as {header} has it"


def ladder(context):
    """concepts.md's ladder has each path of the planner's, in its order."""
    page = _Page(context, "docs/concepts.md")
    text = (context.root / "daemon/plan/ladder.h").read_text()
    through = re.search(r'kThroughNearGpu = "([^"]+)"', text).group(1)
    known = [through if name == "kThroughNearGpu" else name.strip('"')
             for name in re.findall(r'\{("[\w-]+"|kThroughNearGpu), Carrier::', text)]
    listed = [name for _, name in page.rows(r"\| [\d to()]+ \| `([\w+-]+)`") if not name.startswith("storage-bounce+")]
    if listed != known:
        yield f"{page.name}: its ladder is {listed}, and that of daemon/plan/ladder.h {known}"


def counts(context):
    """Numbers of fuzz targets and of findings."""
    targets = (context.root / "tests/fuzz/CMakeLists.txt").read_text().count("\nonecopy_fuzzer(")
    readme = (context.root / "client/doctor/README.md").read_text()
    findings = len(set(re.findall(f"`({_CODE.pattern})`", readme[readme.index("| code |"):])))
    for name, what, number in (("docs/setup.md", "targets", targets), ("docs/status.md", "targets", targets),
                               ("docs/status.md", "findings", findings)):
        places = list(_Page(context, name).found(rf"\b(\d+) {what}\b"))
        if not places:
            yield f"{name}: it no longer says how many {what} there are"
        for line, said in places:
            if int(said) != number:
                yield f"{name}:{line}: {said} {what}, and the code has {number}"


def rates(context):
    """README's table has paths of the ladder with their copies, and rates that speed.md has for the same path."""
    page, speed = _Page(context, "README.md"), _Page(context, "docs/speed.md")
    copies = {name: number for _, number, name in
              _Page(context, "docs/concepts.md").rows(r"\| (\d)(?: \(\d\))? \| `([\w-]+)` \|")}
    measured = set(speed.rows(r"\|[^|]*\| `([\w-]+)` \| ([\d.]+ GB/s) \|", numbered=False))
    rows = list(page.rows(r"\|[^|]*\| `([\w-]+)` \| (\d+) \| ([^|]*) \|$"))
    if len(rows) < 5:
        yield f"{page.name}: its table of paths cannot be read"
    for number, path, said, rate in rows:
        if copies.get(path) != said:
            yield f"{page.name}:{number}: {path} has {said} copies, and in docs/concepts.md {copies.get(path)}"
        figure = re.match(r"[\d.]+ GB/s", rate)
        if figure and (path, figure.group()) not in measured:
            yield f"{page.name}:{number}: docs/speed.md does not have {figure.group()} for {path}"


def measured(context):
    """speed.md's table is what docs/measurements makes of its rows."""
    at = context.root / "bench/measured.py"
    spec = importlib.util.spec_from_file_location("tables", at)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    text = (context.root / "docs/speed.md").read_text()
    try:
        if tables.page(text) != text:
            yield "docs/speed.md: its table is not that of its rows: run bench/measured.py write"
    except (ValueError, OSError, KeyError) as failure:
        yield f"docs/speed.md: {failure}"


class _Page:
    """A document, by lines."""

    def __init__(self, context, name):
        self.name = name
        self._lines = (context.root / name).read_text().splitlines()

    def rows(self, form, numbered=True):
        """Groups of the lines that begin in this form, each after its line's number."""
        for number, line in enumerate(self._lines, 1):
            match = re.match(form, line)
            if match:
                yield ((number,) if numbered else ()) + match.groups()

    def found(self, form):
        """Each place of this form: its line's number, and its group."""
        for number, line in enumerate(self._lines, 1):
            for match in re.finditer(form, line):
                yield number, match.group(1)


def _number(text):
    return int(text.replace("'", "").replace(",", ""))

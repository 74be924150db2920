"""The layers of the Python package hold for every import, and no modules import each other in a circle.

Counted is every import, wherever it stands: at the top of a module, in a function, for types only, or by name as in
importlib.import_module("onecopy.…"). A module may use what _ROOMS gives its folder.
"""

import ast
import pathlib

NAME = "the Python package keeps to its layers"

_PACKAGE = "client/python/onecopy"
_VALUES, _MEMORY, _REQUESTS, _NODE = (f"onecopy.core.{room}" for room in ("values", "memory", "requests", "node"))
_CORE = (_VALUES, _MEMORY, _REQUESTS, _NODE)

# From the ground up: what each folder may use beside itself. All may use the native module.
_ROOMS = {
    _VALUES: (),
    _MEMORY: (_VALUES,),
    _REQUESTS: (_VALUES, _MEMORY),
    _NODE: (_VALUES, _MEMORY, _REQUESTS),
    "onecopy.core": (),
    "onecopy.formats": _CORE,
    "onecopy.integrations": (*_CORE, "onecopy.formats"),
}
# The modules that programs import, beside the package itself, and what each stands for.
_DOORS = {
    "onecopy.aio": _CORE,
    **{f"onecopy.{name}": ("onecopy.formats",) for name in ("arrow", "orc", "parquet")},
    **{f"onecopy.{name}": ("onecopy.integrations",) for name in ("cupy", "numba", "ray", "rmm", "torch", "vllm")},
}
# Imports upwards: each runs when a program first calls what needs it.
_UPWARDS = {("onecopy.core.node._above", "onecopy.formats._array_files")}


def run(context):
    names = [name for name in context.files(".py") if name.startswith(f"{_PACKAGE}/")]
    return PythonLayers(context.root, names).findings()


class PythonLayers:
    """`files` are the package's, relative to `root`."""

    def __init__(self, root, files):
        self._files = {_module_of(name): name for name in files}
        self._imports = {module: sorted(self._found(module, (pathlib.Path(root) / name).read_text()))
                         for module, name in self._files.items()}

    def findings(self):
        found = [f"{self._files[module]}:{line}: {problem}" for module, imports in self._imports.items()
                 for line, target in imports for problem in [self._problem(module, target)] if problem]
        return found + [f"{self._files[circle[0]]}:1: a circle of imports: {' -> '.join(circle)}" for circle in self.circles()]

    def circles(self):
        """Modules that import each other: one way around for each group of such."""
        edges = {module: {target for _, target in imports if (module, target) not in _UPWARDS and not _is_door(module)}
                 for module, imports in self._imports.items()}
        reached = {module: _reached(edges, module) for module in edges}
        found, done = [], set()
        for start in sorted(edges):
            if start in reached[start] and start not in done:
                found.append(_way_back(edges, start))
                done |= {module for module in reached[start] if start in reached.get(module, ())}
        return found

    def _problem(self, module, target):
        if (module, target) in _UPWARDS:
            return None
        if _is_door(target) and target != "onecopy.aio":
            return f"{module} may not import {target}, which is for programs: import what it stands for"
        room, allowed = self._allowed(module)
        if allowed is None:
            return f"{module} is in no layer: add it to {pathlib.PurePath(__file__).name}"
        other = _room_of(target)
        if other == room or other in allowed:
            return None
        return f"{module} may not import {target}: its layer may use {', '.join(allowed) or 'nothing else'}"

    def _allowed(self, module):
        if module == "onecopy":
            return module, (*_CORE, "onecopy.aio")
        if module in _DOORS:
            return module, _DOORS[module]
        room = _room_of(module)
        return room, _ROOMS.get(room)

    def _found(self, module, text):
        """Line and module of each import of ours."""
        is_package = self._files[module].endswith("/__init__.py")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, each.name) for each in node.names if each.name in self._files)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = module.split(".")
                    parts = parts[:len(parts) - node.level + is_package]
                    base = ".".join([*parts, base] if base else parts)
                yield from self._of_names(node, base)
            elif _is_import_call(node) and node.args[0].value in self._files:
                yield node.lineno, node.args[0].value

    def _of_names(self, node, base):
        if base != "onecopy" and not base.startswith("onecopy."):
            return
        for each in node.names:
            target = f"{base}.{each.name}"
            if target in self._files:
                yield node.lineno, target
            elif target != "onecopy._native":
                yield node.lineno, base


def _module_of(name):
    parts = pathlib.PurePath(name).relative_to(pathlib.PurePath(_PACKAGE).parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room_of(module):
    """The folder that it is in; of a folder, itself."""
    return module if module in _ROOMS else module.rpartition(".")[0]


def _is_door(module):
    return module == "onecopy" or module in _DOORS


def _is_import_call(node):
    return (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and node.args
            and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str))


def _reached(edges, start):
    """What a module imports, and what that imports, and so on."""
    found, queue = set(), [start]
    for module in queue:
        for target in edges.get(module, ()):
            if target not in found:
                found.add(target)
                queue.append(target)
    return found


def _way_back(edges, start):
    """The shortest way from a module back to it; empty where there is none."""
    before, queue = {}, [start]
    for module in queue:
        for target in sorted(edges.get(module, ())):
            if target == start:
                way = [start, module]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if target not in before:
                before[target] = module
                queue.append(target)
    return []

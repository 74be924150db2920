"""The layer picture holds for every #include: a folder uses only what cmake/Layers.cmake allows it.

The link graph is checked by CMake itself; a header needs no linking, so includes are checked here.
"""

import os
import pathlib
import re

NAME = "includes keep to the layers"

_CODE = (".cc", ".h", ".cu", ".cuh")
_FOLDERS = ("values/", "transport/", "proto/", "daemon/", "client/", "bench/", "deploy/")
_BACKENDS = ("transport/memory/", "transport/link/", "transport/store/")
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
_SET = re.compile(r"\bset\s*\(\s*ONECOPY_(\w+)([^)]*)\)")
_GENERATED = re.compile(r"^(?:onecopy/v\d+|google/rpc|grpc/health/v\d+)/\w+(?:\.grpc)?\.pb\.h$")
_GRPC = re.compile(r"^(?:grpc|grpcpp|grpc\+\+)/|\.grpc\.pb\.h$")
_STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint
cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream
functional future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory
memory_resource mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore
set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view strstream
syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray
variant vector version
""".split())


def run(context):
    return Layers(context.root, context.files()).findings()


class Layers:
    """`files` are the repository's, relative to `root`."""

    def __init__(self, root, files):
        self._root = pathlib.Path(root)
        self._files = files
        self._present = set(files)
        text = re.sub(r"#.*", "", (self._root / "cmake/Layers.cmake").read_text())
        self._sets = {name: value.replace('""', '').split() for name, value in _SET.findall(text)}
        self._houses = {str(pathlib.PurePath(name).parent) for name in files if name.endswith("/CMakeLists.txt")
                        and "onecopy_rooms(" in (self._root / name).read_text()}
        self._modules = {str(pathlib.PurePath(name).parent) for name in files if name.endswith("/CMakeLists.txt")
                         and "onecopy_module(" in (self._root / name).read_text()}

    def findings(self):
        return [f"{name}:{number}: {problem}" for name in self._files
                if name.startswith(_FOLDERS) and name.endswith(_CODE)
                for number, problem in self._of_file(name)]

    def _of_file(self, name):
        text = (self._root / name).read_text()
        folder = self._module(name)
        allowed = self._allowed(folder)
        if allowed is None:
            yield 1, f"{folder} is in no layer: add it to cmake/Layers.cmake"
            return
        for match in _INCLUDE.finditer(text):
            problem = self._problem(name, folder, allowed, match.group(2), quoted=match.group(1) == '"')
            if problem:
                yield text.count("\n", 0, match.start()) + 1, problem

    def _problem(self, name, folder, allowed, include, quoted):
        if _GRPC.search(include) and folder not in self._sets["GRPC_FOLDERS"]:
            return f"{folder} may not include {include}: gRPC is seen by {', '.join(self._sets['GRPC_FOLDERS'])} only"
        target = self._target(name, include)
        if target is None:
            if quoted:
                return f"{include} is no file of ours"
            if (folder == "values" or folder.startswith("transport/core/")) and include not in _STANDARD:
                return f"{folder} may not include <{include}>: it uses the standard library only"
            return None
        allowed = [*allowed, *self._sets.get("EVERYWHERE", ())]
        house = str(pathlib.PurePath(target).parent)
        if target == folder or target in allowed or (house in self._houses and house in allowed) or any(target.startswith(f"{one}/include") for one in allowed):
            return None
        if target == f"{folder}/include":  # a library's own public headers
            return None
        if f"PROGRAM_{folder}" in self._sets and target.startswith(f"{folder}/"):
            return None
        if folder.startswith(_BACKENDS) and target.startswith(_BACKENDS):
            return f"a backend may not include another one: {folder} includes {include}"
        return f"{folder} may not include {include}: cmake/Layers.cmake allows it {', '.join(allowed) or 'nothing'}"

    def _target(self, name, include):
        """The folder of ours that an include belongs to; None for other people's headers."""
        if _GENERATED.match(include):
            return "proto"
        beside = os.path.normpath(pathlib.PurePath(name).parent / include)
        for candidate in (include, beside, f"values/{include}", f"client/lib/include/{include}"):
            if candidate in self._present or f"{candidate}.in" in self._present:  # filled in by CMake
                return self._module(candidate)
        return None

    def _module(self, name):
        """The folder whose target a file belongs to: the nearest one with a target or an entry of its own."""
        own = pathlib.PurePath(name).parent
        for folder in (own, *own.parents):
            if str(folder) in self._modules or self._key(folder) in self._sets:
                return str(folder)
        return str(own)

    def _allowed(self, folder):
        """As onecopy_check_layer() finds it: the nearest entry upwards. None where there is none."""
        if f"PROGRAM_{folder}" in self._sets:  # the program that is put together there
            return self._sets[f"PROGRAM_{folder}"]
        place = pathlib.PurePath(folder)
        for layer in (place, *place.parents):
            if self._key(layer) in self._sets:
                return self._sets[self._key(layer)]
        return None

    @staticmethod
    def _key(folder):
        return "LAYER_" + str(folder).replace("/", "_")

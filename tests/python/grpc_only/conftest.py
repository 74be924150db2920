"""A daemon, and the code that docs/grpc.md generates and shows."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest
from grpc_daemon import ROOT, Daemon

if importlib.util.find_spec("grpc_tools") is None:  # of another virtual environment: see `run`
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def daemon():
    with tempfile.TemporaryDirectory(prefix="onecopy-grpc.") as path:
        made = Daemon(pathlib.Path(path))
        yield made
        made.end()


@pytest.fixture(scope="session", autouse=True)
def generated():
    """The folder of the code that protoc makes of what is installed."""
    import google.rpc

    installed = re.search(r"install\(FILES ([^)]*)\s+DESTINATION \"\$\{CMAKE_INSTALL_DATADIR\}/onecopy/proto/onecopy/v1\"",
                          (ROOT / "deploy/CMakeLists.txt").read_text())
    names = re.findall(r"(\w+\.proto)", installed.group(1))
    assert {"session.proto", "transfer.proto", "buffer.proto", "node.proto", "common.proto"} <= set(names)
    with tempfile.TemporaryDirectory(prefix="onecopy-grpc.") as path:
        place = pathlib.Path(path) / "proto" / "onecopy" / "v1"
        place.mkdir(parents=True)
        for name in names:  # these alone, as installed
            (place / name).write_text((ROOT / "proto/onecopy/v1" / name).read_text())
        common = pathlib.Path(list(google.rpc.__path__)[0]).parents[1]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", place.parents[1], "-I", common,
                        f"--python_out={path}", f"--grpc_python_out={path}", *(place / name for name in names)],
                       check=True)
        sys.path.insert(0, path)
        yield pathlib.Path(path)
        sys.path.remove(path)


@pytest.fixture(scope="session")
def shown(generated):
    """The names that the code of docs/grpc.md defines."""
    del generated
    names = {"__name__": "shown"}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs/grpc.md").read_text(), re.S):
        exec(compile(code, "docs/grpc.md", "exec"), names)
    return names

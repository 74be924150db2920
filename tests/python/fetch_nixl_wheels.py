"""Fetches the wheels of NIXL of all versions that the plug-in knows, for test_nixl_layout.py: 1.5 GB, into
build/python/nixl-wheels; what is there already is left alone."""

import pathlib
import subprocess
import sys

PLACE = pathlib.Path(__file__).resolve().parents[2] / "build" / "python" / "nixl-wheels"
# As in client/nixl/versions.cc; the test holds one against the other.
VERSIONS = ("1.1.0", "1.2.0", "1.3.0", "1.3.1", "1.3.2", "1.4.0", "1.4.1", "1.5.0", "1.5.1")
PACKAGES = ("nixl_cu12", "nixl_cu13")


def find(package, version):
    """The file, or nothing."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return next(PLACE.glob(f"{package}-{version}-{python}-*.whl"), None)


def main():
    PLACE.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        for version in VERSIONS:
            if find(package, version) is None:
                subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                                "--dest", PLACE, f"{package.replace('_', '-')}=={version}"], check=True)


if __name__ == "__main__":
    main()

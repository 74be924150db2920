"""Fetches vLLM's wheels for test_vllm.py: 700 MB, once, of which its Python files are kept, in build/python/vllm-VERSION.

vLLM itself is not installed: it wants a torch of its own and 5 GB of other packages.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The newest, and the oldest whose configuration takes a backend that vLLM does not know.
VERSIONS = {
    "0.33.0": "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
    "0.24.0": "2d2831aeba311292250df0132dbc4d8e9f42c654536eaec48e6fe58acb1822cf",
}


def place(version):
    """A folder for PYTHONPATH."""
    return ROOT / "build" / "python" / f"vllm-{version}"


def fetch(version, digest):
    with tempfile.TemporaryDirectory(dir=place(version).parent) as scratch:
        folder = pathlib.Path(scratch)
        (folder / "wanted").write_text(f"vllm=={version} --hash=sha256:{digest}\n")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary", ":all:", "--require-hashes", "--dest", folder, "-r", folder / "wanted"], check=True)
        wheel, = folder.glob("vllm-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "made", [name for name in archive.namelist() if name.endswith(".py")])
        shutil.move(folder / "made", place(version))


def main():
    for version, digest in VERSIONS.items():
        if not place(version).exists():
            place(version).parent.mkdir(parents=True, exist_ok=True)
            fetch(version, digest)


if __name__ == "__main__":
    main()

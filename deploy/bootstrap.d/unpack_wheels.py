"""Unpacks parts of wheels: unpack_wheels.py DEST PREFIX PATTERN WHEEL...

Every file inside the wheels (which are zip archives) whose path matches PATTERN, in which * stands for anything, is
written under DEST without PREFIX, with the executable bits that the wheel records. Fails when a wheel has no such
file.
"""

import fnmatch
import pathlib
import shutil
import sys
import zipfile


def unpack(wheel: pathlib.Path, prefix: str, pattern: str, dest: pathlib.Path) -> int:
    """Returns the number of files written."""
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not fnmatch.fnmatchcase(entry.filename, pattern):
                continue
            target = (dest / entry.filename.removeprefix(prefix)).resolve()
            if not target.is_relative_to(dest.resolve()):
                raise ValueError(f"it has a file outside its tree: {entry.filename}")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            mode = entry.external_attr >> 16
            target.chmod(0o755 if mode & 0o111 else 0o644)
            count += 1
    return count


def main() -> int:
    dest, prefix, pattern = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    for wheel in map(pathlib.Path, sys.argv[4:]):
        try:
            count = unpack(wheel, prefix, pattern, dest)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            print(f"{wheel.name}: {error}", file=sys.stderr)
            return 1
        if count == 0:
            print(f"{wheel.name} has no {pattern}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

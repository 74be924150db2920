"""The package works beside others with a gRPC, a protobuf or a C++ runtime of their own, whichever comes first."""

import subprocess
import sys

import pytest
import users

ORDERS = {
    "after it": lambda user: (user, users.OURS),
    "before it": lambda user: (users.OURS, user),
    "around it": lambda user: (users.OURS, user, users.OURS),
}


def run(pair, cache, parts):
    done = subprocess.run([sys.executable, "-c", "\n".join([*parts, "print('done')"])], check=False, timeout=240,
                          env=users.environment(pair.east.run_dir, cache), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", users.USERS)
def test_beside(pair, tmp_path, name, order):
    if not users.present(name):
        pytest.skip(f"{name} is not installed: the suite python-matrix has all")
    run(pair, tmp_path, ORDERS[order](users.USERS[name]))


@pytest.mark.parametrize("backwards", [False, True])
def test_beside_all_that_are_here(pair, tmp_path, backwards):
    names = [name for name in users.USERS if users.present(name)]
    assert len(names) > 1
    parts = [users.USERS[name] for name in names]
    parts.insert(len(parts) // 2, users.OURS)
    run(pair, tmp_path, [*(reversed(parts) if backwards else parts), users.OURS])

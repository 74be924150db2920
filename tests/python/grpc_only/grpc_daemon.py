"""A daemon that serves at a socket and in a network."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ["ONECOPY_BIN_DIR"])


def onecopy(*words, run_dir=None):
    """What `onecopy` prints; it must succeed."""
    where = ["--run-dir", run_dir] if run_dir else []
    done = subprocess.run([BIN / "onecopy", *where, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Daemon:
    """onecopyd "west", with TLS and `api_listen`."""

    def __init__(self, folder):
        self.folder = folder
        self.run_dir = folder / "run"
        self.authority = folder / "authority"
        onecopy("cert", "init-ca", str(self.authority))
        onecopy("cert", "issue", "west", "--ca", str(self.authority), "--out", str(folder))
        onecopy("cert", "revoke", "--ca", str(self.authority))
        config = folder / "config.toml"
        config.write_text(f"""version = 1
name = "west"
listen = "127.0.0.1:0"
lanes = "127.0.0.1:0"
api_listen = "127.0.0.1:0"
metrics_listen = "off"
run_dir = "{self.run_dir}"
[tls]
ca = "{self.authority}/ca.pem"
certificate = "{folder}/west.pem"
key = "{folder}/west.key"
crl = "{self.authority}/crl.pem"
""")
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen([BIN / "onecopyd", "--config", config], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self._log, text=True)
        ready = self.process.stdout.readline()
        assert ready.startswith("ready name=west "), ready + (folder / "log").read_text()
        self.api = dict(word.split("=", 1) for word in ready.split()[1:])["api"]

    def user(self, uid, *nodes, name=None):
        """The files of a user's certificate, as arguments of secure()."""
        out = self.folder / (name or f"user-{uid}")
        named = [word for node in nodes or ("west",) for word in ("--node", node)]
        onecopy("cert", "issue-user", str(uid), *named, "--ca", str(self.authority), "--out", str(out))
        return f"{self.authority}/ca.pem", f"{out}/user-{uid}.pem", f"{out}/user-{uid}.key"

    def end(self):
        self.process.terminate()
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        self._log.close()
        assert status == 0, (self.folder / "log").read_text()

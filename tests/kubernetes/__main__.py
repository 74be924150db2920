"""tests/kubernetes KUBECTL SCHEMAS BIN: the manifests of deploy/kubernetes, and pods that are made of namespaces as they say.

Prints a line of JSON for each case: its name, ok, FAIL or skip, why, and what was found.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import edits
import pods
import rendering
import rules
import slurm
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "deploy/kubernetes"
RENDERED = ("base", "overlays/roce", "overlays/infiniband", "examples/site")


def _say(name, outcome, reason="", detail=()):
    print(json.dumps({"name": name, "outcome": outcome, "reason": reason, "detail": list(detail)}), flush=True)


def _judge(name, findings):
    _say(name, "FAIL" if findings else "ok", detail=findings)


def all_findings(name, documents, schemas, onecopyd, files, sound=()):
    """Everything that is wrong with the documents of a kustomization. Those of `sound` are as the API says."""
    found = []
    for document in (each for each in documents if each not in sound):
        own = rules.custom(document)
        found += schemas.findings(document) if own is None else own
    for check in (rules.rights, rules.references):
        found += check(documents)
    found += rules.as_elsewhere(documents, ROOT)
    found += rules.configuration(documents, onecopyd, files)
    return found + list(rules.overlays(name, documents))


def main():
    with tempfile.TemporaryDirectory(prefix="onecopy-kubernetes.") as files:
        _run(pathlib.Path(files))


def _run(files):
    kubectl, schemas, binaries = sys.argv[1], rendering.Schemas(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
    onecopyd = binaries / "onecopyd"
    for words in (["init-ca", files], ["issue", "node", "--ca", files, "--out", files]):
        subprocess.run([binaries / "onecopy", "cert", *words], stdout=subprocess.DEVNULL, check=True)
    site = None
    for name in RENDERED:
        try:
            documents = rendering.render(kubectl, MANIFESTS / name)
            found = all_findings(name, documents, schemas, onecopyd, files)
        except rendering.Failed as failure:
            found = [str(failure)]
        _judge(f"{name} is what the API, the configuration and the rest of the repository say", found)
        if not found:
            site = documents
    example = list(yaml.safe_load_all((MANIFESTS / "examples/client.yaml").read_text()))
    _judge("the client's pod is what the API says, and has no right",
           [each for document in example for each in schemas.findings(document)] + list(rules.rights(example)))
    unused = [str(path.parent.relative_to(MANIFESTS)) for path in MANIFESTS.rglob("kustomization.yaml")
              if path.parent.relative_to(MANIFESTS).parts[0] == "components" and path.parent.name not in _used()]
    _judge("every component is part of what was looked at", unused)
    if site is None or "Certificate" not in {each["kind"] for each in site}:
        _say("mistakes are found", "FAIL", "examples/site is not sound itself")
        return
    for what, edit, words in edits.MISTAKES:
        found = all_findings("examples/site", edits.edited(site, edit), schemas, onecopyd, files, site)
        _judge(f"found: {what}", [] if any(words in each for each in found) else [f"no finding has “{words}”", *found])
    if os.geteuid() != 0:
        _say("pods of namespaces, and Slurm's scripts", "skip", "only root can make them")
        return
    pods.run(rendering.render(kubectl, MANIFESTS / "base"), site, example[0], binaries, _judge)
    slurm.run(ROOT, binaries, _judge)


def _used():
    found = set()
    for folder in RENDERED:
        kustomization = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())
        found |= {pathlib.PurePath(each).name for each in kustomization.get("components", ())}
    return found


if __name__ == "__main__":
    main()

"""What `kubectl kustomize` makes of a folder of deploy/kubernetes, and what the API's schemas say of it."""

import json
import pathlib
import subprocess

import jsonschema
import yaml

_ID = "https://kubernetes.io/api/"  # as the schemas name each other


class Failed(Exception):
    """Something could not be rendered or started; says why."""


def render(kubectl, folder):
    """The documents of a kustomization, as a list."""
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:  # it warns of fields that will go
        raise Failed(f"{folder.name}: kubectl: {done.stderr.strip()}")
    return list(yaml.safe_load_all(done.stdout))


def named(document):
    return f"{document.get('kind')} {document.get('metadata', {}).get('name')}"


class Schemas:
    """JSON schemas of Kubernetes' own kinds, which refuse fields that they do not know."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder).resolve()
        definitions = json.loads((self._folder / "_definitions.json").read_text())
        self._store = {f"{_ID}_definitions.json": definitions}

    def findings(self, document):
        """What is wrong with it. A kind that has no schema is wrong here: see rules.CUSTOM for others."""
        group, _, version = document.get("apiVersion", "").rpartition("/")
        stem = "-".join(filter(None, [str(document.get("kind")).lower(), group.split(".")[0], version]))
        path = self._folder / f"{stem}.json"
        if not path.exists():
            return [f"{named(document)}: the API has no {document.get('apiVersion')} {document.get('kind')}"]
        schema = json.loads(path.read_text())
        resolver = jsonschema.RefResolver(f"{_ID}{path.name}", schema, store=self._store)
        return [f"{named(document)}: {'.'.join(map(str, error.absolute_path))}: {error.message[:160]}"
                for error in jsonschema.Draft7Validator(schema, resolver=resolver).iter_errors(document)]

"""What the manifests must have: of their own, and as other files of the repository have it."""

import re
import subprocess
import tempfile

from rendering import named

DAEMON, HOLDER = "onecopyd", "onecopy-holder"
# What the documentation of cert-manager 1.x and of the Prometheus operator 0.6x and later gives these fields.
_SECRET_KEY = {"name": str, "key": str}
_ISSUER = {"name": str, "kind": ("Issuer", "ClusterIssuer"), "group": ("cert-manager.io",)}
CUSTOM = {
    ("cert-manager.io/v1", "Issuer"): {"selfSigned": {}, "ca": {"secretName": str}},
    ("cert-manager.io/v1", "Certificate"): {
        "secretName": str, "duration": str, "commonName": str, "isCA": bool, "dnsNames": [str], "uris": [str],
        "usages": [("digital signature", "server auth", "client auth")], "issuerRef": _ISSUER,
        "privateKey": {"algorithm": ("ECDSA", "RSA", "Ed25519"), "size": int, "rotationPolicy": ("Always", "Never")},
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        "selector": {"matchLabels": dict},
        "podMetricsEndpoints": [{
            "port": str, "path": str, "scheme": ("http", "https"), "interval": str,
            "tlsConfig": {"ca": {"secret": _SECRET_KEY}, "cert": {"secret": _SECRET_KEY}, "keySecret": _SECRET_KEY,
                          "insecureSkipVerify": bool},
            "relabelings": [{"sourceLabels": [str], "targetLabel": str}],
        }],
    },
}


def custom(document):
    """What is wrong with a custom resource; None if its kind is the API's own."""
    form = CUSTOM.get((document.get("apiVersion"), document.get("kind")))
    if form is None:
        return None
    return [f"{named(document)}: {where}" for where in _unlike(document.get("spec"), form, "spec")]


def _unlike(value, form, where):
    if isinstance(form, dict):
        if not isinstance(value, dict):
            yield f"{where} is not a mapping"
            return
        for key, inner in value.items():
            if key not in form:
                yield f"{where}.{key} is unknown"
            else:
                yield from _unlike(inner, form[key], f"{where}.{key}")
    elif isinstance(form, list):
        if not isinstance(value, list) or not value:
            yield f"{where} is not a list with something in it"
            return
        for number, inner in enumerate(value):
            yield from _unlike(inner, form[0], f"{where}.{number}")
    elif isinstance(form, tuple):
        if value not in form:
            yield f"{where} is {value!r}, and must be one of {', '.join(form)}"
    elif not isinstance(value, form):
        yield f"{where} is {value!r}, which is not of type {form.__name__}"


def the(documents, kind, name):
    """The document, or None."""
    return next((each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name), None)


def pod_of(document):
    """The pod's specification, of a Pod or of what makes pods; None of others."""
    if document["kind"] == "Pod":
        return document["spec"]
    return document.get("spec", {}).get("template", {}).get("spec") if document["kind"] == "DaemonSet" else None


def containers_of(pod):
    return [*pod.get("initContainers", ()), *pod.get("containers", ())]


# What a container may have beside nothing, by name.
_CAPABILITIES = {"prepare": {"CHOWN", "FOWNER"}, DAEMON: {"IPC_LOCK", "SETGID", "SETPCAP", "SETUID"}}


def rights(documents):
    """No pod has more than it needs."""
    for document in documents:
        pod = pod_of(document)
        if pod is None:
            continue
        what = named(document)
        if pod.get("hostIPC"):
            yield f"{what}: hostIPC"
        serves = document["kind"] == "DaemonSet"
        if bool(pod.get("hostPID")) != serves:
            yield f"{what}: hostPID is {pod.get('hostPID')}"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{what}: it gets a token of the API server"
        if pod.get("securityContext", {}).get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{what}: no seccomp profile"
        for container in containers_of(pod):
            where, context = f"{what}: {container['name']}", container.get("securityContext", {})
            capabilities = context.get("capabilities", {})
            if context.get("privileged"):
                yield f"{where}: privileged"
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{where}: allowPrivilegeEscalation"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{where}: it may write to its image"
            if capabilities.get("drop") != ["ALL"]:
                yield f"{where}: it keeps capabilities"
            more = set(capabilities.get("add", ())) - _CAPABILITIES.get(container["name"], set())
            if more:
                yield f"{where}: capabilities {', '.join(sorted(more))}"
        for volume in pod.get("volumes", ()):
            path = volume.get("hostPath", {}).get("path")
            if path and path not in ("/run/onecopy", "/run/onecopy-holder"):
                yield f"{what}: {path} of the host"


def references(documents):
    """What names something else names something that is there."""
    labels = {}
    for document in documents:
        pod = pod_of(document)
        if document["kind"] == "DaemonSet":
            labels[document["metadata"]["name"]] = document["spec"]["template"]["metadata"]["labels"]
            if document["spec"]["selector"]["matchLabels"].items() - labels[document["metadata"]["name"]].items():
                yield f"{named(document)}: its selector does not match its pods"
        if pod is None:
            continue
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        used = set()
        for container in containers_of(pod):
            mounts = {mount["name"] for mount in container.get("volumeMounts", ())}
            used |= mounts
            yield from (f"{named(document)}: {container['name']}: no volume {name}" for name in sorted(mounts - volumes))
            known = {each["name"] for each in container.get("env", ())}
            said = " ".join([*container.get("command", ()), *container.get("args", ())])
            yield from (f"{named(document)}: {container['name']}: no variable {name}"
                        for name in sorted(set(re.findall(r"\$\((\w+)\)", said)) - known))
        yield from (f"{named(document)}: nothing mounts {name}" for name in sorted(volumes - used))
        for volume in pod.get("volumes", ()):
            name = volume.get("configMap", {}).get("name")
            if name and not the(documents, "ConfigMap", name):
                yield f"{named(document)}: no ConfigMap {name}"
        account = pod.get("serviceAccountName")
        if account and not the(documents, "ServiceAccount", account):
            yield f"{named(document)}: no ServiceAccount {account}"
    certificates = [each["spec"] for each in documents if each["kind"] == "Certificate"]
    made = {each["secretName"] for each in certificates}
    for name in sorted(_secrets(documents) - made if certificates else ()):
        yield f"no Certificate makes the Secret {name}"
    for document in documents:
        chosen = {"Service": ("selector",), "NetworkPolicy": ("podSelector", "matchLabels"),
                  "PodMonitor": ("selector", "matchLabels")}.get(document["kind"])
        if chosen:
            selected = document["spec"]
            for key in chosen:
                selected = selected.get(key, {})
            if not selected or not any(selected.items() <= each.items() for each in labels.values()):
                yield f"{named(document)}: it selects no pod"
        issuer = document["spec"].get("issuerRef", {}).get("name") if document["kind"] == "Certificate" else None
        if issuer and not the(documents, "Issuer", issuer):
            yield f"{named(document)}: no Issuer {issuer}"
        if document["kind"] not in ("Namespace", "Pod") and document["metadata"].get("namespace") != "onecopy":
            yield f"{named(document)}: it is not in the namespace onecopy"


def _secrets(documents):
    found = set()

    def look(value, key=""):
        if isinstance(value, dict):
            if key in ("secret", "keySecret", "ca") and ("name" in value or "secretName" in value):
                found.add(value.get("name") or value.get("secretName"))
            for inner, each in value.items():
                look(each, inner)
        elif isinstance(value, list):
            for each in value:
                look(each)

    look(documents)
    return found


def _port_names(documents):
    daemon = pod_of(the(documents, "DaemonSet", DAEMON))
    return {port["name"]: port["containerPort"] for port in daemon["containers"][0]["ports"]}


def as_elsewhere(documents, root):
    """Users, paths, ports and times are those of the unit, the image, the configuration's defaults and the documentation."""
    unit = (root / "deploy/onecopyd.service").read_text()
    holder_unit = (root / "deploy/onecopy-holder.service").read_text()
    image = (root / "deploy/package.d/Containerfile").read_text()
    sections = (root / "daemon/config/sections.cc").read_text()
    user = re.search(r"useradd --system --uid (\d+)", image)[1]
    daemon = the(documents, "DaemonSet", DAEMON)
    pod = pod_of(daemon)
    container = pod["containers"][0]
    command = [*container["command"], *container["args"]]

    def wants(have, expected, what):
        if have != expected:
            yield f"{named(daemon)}: {what} is {have}, and elsewhere {expected}"

    def option(name):
        return next((word.partition("=")[2] for word in command if word.startswith(f"--{name}=")), None)

    ports = _port_names(documents)
    default_port = int(re.search(r'Text\("listen", "127\.0\.0\.1:(\d+)"', sections)[1])
    metrics_port = int(re.search(r'Text\("metrics_listen", "127\.0\.0\.1:(\d+)"', sections)[1])
    yield from wants(ports, {"peers": default_port, "lanes": default_port + 1, "metrics": metrics_port}, "ports")
    yield from wants(option("listen"), f"$(POD_IP):{default_port}", "--listen")
    yield from wants(option("metrics-listen"), f"$(POD_IP):{metrics_port}", "--metrics-listen")
    yield from wants(option("run-dir"), re.search(r"--run-dir (\S+)", unit)[1], "--run-dir")
    yield from wants((option("reuid"), option("regid")), (user, user), "the user and group")
    yield from wants(str(pod["securityContext"].get("fsGroup")), user, "fsGroup")
    yield from wants(option("ambient-caps"), "+ipc_lock", "--ambient-caps")
    yield from wants(option("bounding-set"), "-all,+ipc_lock", "--bounding-set")
    yield from wants(str(pod.get("terminationGracePeriodSeconds")), re.search(r"TimeoutStopSec=(\d+)", unit)[1], "the time to stop")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield from wants(container.get(probe, {}).get("exec", {}).get("command"),
                         ["onecopy", "--run-dir", option("run-dir"), "--quiet", "node", "ls"], probe)
    for each in (document for document in documents if document["kind"] == "DaemonSet"):
        prepared = pod_of(each)["initContainers"][0]["command"][-1]
        yield from wants(set(re.findall(r"chown (\d+):(\d+)", prepared)), {(user, user)}, "the owner of the folder")
    service = the(documents, "Service", DAEMON)
    yield from wants(service["spec"].get("clusterIP"), "None", "clusterIP")
    yield from wants(service["spec"].get("publishNotReadyAddresses"), True, "publishNotReadyAddresses")
    for document in documents:
        names = [port.get("targetPort") for port in document["spec"]["ports"]] if document["kind"] == "Service" else []
        if document["kind"] == "NetworkPolicy":
            names = [port["port"] for way in ("ingress", "egress") for rule in document["spec"].get(way, ())
                     for port in rule["ports"] if port["port"] != 53]
        if document["kind"] == "PodMonitor":
            names = [end["port"] for end in document["spec"]["podMetricsEndpoints"]]
        yield from (f"{named(document)}: no port {name}" for name in names if name not in ports)
    holder = the(documents, "DaemonSet", HOLDER)
    if holder:
        other = pod_of(holder)["containers"][0]
        started = re.search(r"ExecStart=(.*)", holder_unit)[1]
        yield from wants(" ".join([*other["command"], *other["args"]]), started, "the holder's command")
        yield from wants(option("holder"), started.split()[-1], "--holder")
        context = other["securityContext"]
        yield from wants((str(context.get("runAsUser")), str(context.get("runAsGroup"))), (user, user), "the holder's user")


def configuration(documents, onecopyd, files):
    """onecopyd accepts the configuration, which names the Service and the files of the volumes. `files` has such files."""
    maps = [each for each in documents if each["kind"] == "ConfigMap"]
    if len(maps) != 1:
        yield f"{len(maps)} ConfigMaps, and there should be one"
        return
    text = maps[0]["data"]["config.toml"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write('name = "node"\n' + re.sub(r'"/etc/onecopy/(certificates|node)/', f'"{files}/', text))
        file.flush()
        done = subprocess.run([onecopyd, "config", "check", file.name], capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).replace(file.name, "config.toml").splitlines()
    yield from (f"config.toml: {line}" for line in said if done.returncode != 0)
    service = the(documents, "Service", DAEMON)
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    if f'dns_name = "{name}"' not in text:
        yield f"config.toml: dns_name is not {name}"
    mounts = {mount["mountPath"] for mount in pod_of(the(documents, "DaemonSet", DAEMON))["containers"][0]["volumeMounts"]}
    for path in re.findall(r'^(?:ca|certificate|key) = "(.*)/[^/]+"$', text, re.M):
        if path not in mounts:
            yield f"config.toml: nothing is mounted at {path}"


def overlays(name, documents):
    """What is particular to an overlay."""
    pod = pod_of(the(documents, "DaemonSet", DAEMON))
    rdma = [key for key in pod["containers"][0]["resources"].get("limits", {}) if key.startswith("rdma/")]
    host = bool(pod.get("hostNetwork"))
    wanted = name != "base"
    if host != wanted or bool(rdma) != wanted:
        yield f"{name}: hostNetwork {host}, devices {rdma}"
    if host and pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
        yield f"{name}: a pod in the host's network does not ask the cluster's DNS"
    environment = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    if wanted and (environment.get("NVIDIA_VISIBLE_DEVICES") != "all" or pod.get("runtimeClassName") != "nvidia"):
        yield f"{name}: no GPUs"

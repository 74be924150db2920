"""Mistakes that are made in the manifests on purpose: each must be found."""

import copy

import rules


def _daemon(documents):
    return rules.pod_of(rules.the(documents, "DaemonSet", rules.DAEMON))


def _first(documents):
    return _daemon(documents)["containers"][0]


def _set(get, key, value):
    def edit(documents):
        get(documents)[key] = value
    return edit


def _of(kind, name=rules.DAEMON):
    return lambda documents: rules.the(documents, kind, name)


def _config(old, new):
    def edit(documents):
        data = next(each for each in documents if each["kind"] == "ConfigMap")["data"]
        assert old in data["config.toml"]
        data["config.toml"] = data["config.toml"].replace(old, new)
    return edit


def _argument(old, new):
    def edit(documents):
        container = _first(documents)
        for key in ("command", "args"):
            container[key] = [new if word == old else word for word in container[key]]
    return edit


# What is done, the edit of the documents of examples/site, and words of the finding.
MISTAKES = (
    ("hostIPC", _set(_daemon, "hostIPC", True), "hostIPC"),
    ("no hostPID", _set(_daemon, "hostPID", False), "hostPID is False"),
    ("privileged", lambda d: _first(d)["securityContext"].update(privileged=True), "privileged"),
    ("another capability", lambda d: _first(d)["securityContext"]["capabilities"]["add"].append("SYS_ADMIN"), "SYS_ADMIN"),
    ("all capabilities", lambda d: _first(d)["securityContext"]["capabilities"].pop("drop"), "keeps capabilities"),
    ("new privileges", lambda d: _first(d)["securityContext"].update(allowPrivilegeEscalation=True), "allowPrivilegeEscalation"),
    ("a folder of the host", lambda d: _daemon(d)["volumes"][0].update(hostPath={"path": "/etc"}), "/etc of the host"),
    ("a field that pods do not have", _set(_daemon, "hostPid", True), "hostPid"),
    ("a field of a wrong type", _set(_daemon, "terminationGracePeriodSeconds", "45 s"), "45 s"),
    ("a probe of two kinds of time", lambda d: _first(d)["livenessProbe"].update(period=1), "period"),
    ("a kind that the API does not have", lambda d: _of("Service")(d).update(apiVersion="v2"), "the API has no v2 Service"),
    ("a field that Certificates do not have", lambda d: _of("Certificate", "onecopy-gpu-01")(d)["spec"].update(dnsName="x"), "dnsName"),
    ("a usage that does not exist", lambda d: _of("Certificate", "onecopy-gpu-01")(d)["spec"].update(usages=["server"]), "'server'"),
    ("an Issuer that is not there", lambda d: _of("Certificate", "onecopy-gpu-01")(d)["spec"]["issuerRef"].update(name="x"), "no Issuer x"),
    ("a Secret that nothing makes", lambda d: _of("Certificate", "onecopy-gpu-02")(d)["spec"].update(secretName="x"), "onecopy-gpu-02"),
    ("a field that PodMonitors do not have", lambda d: _of("PodMonitor")(d)["spec"]["podMetricsEndpoints"][0].update(tls={}), "tls"),
    ("a port that is not there", lambda d: _of("PodMonitor")(d)["spec"]["podMetricsEndpoints"][0].update(port="web"), "no port web"),
    ("a policy of no pod", lambda d: _of("NetworkPolicy")(d)["spec"]["podSelector"]["matchLabels"].update(a="b"), "selects no pod"),
    ("another port", _argument("--listen=$(POD_IP):7701", "--listen=$(POD_IP):7700"), "--listen"),
    ("a variable that is not there", _argument("--name=$(NODE_NAME)", "--name=$(NODE)"), "no variable NODE"),
    ("another user", _argument("--reuid=64701", "--reuid=0"), "the user and group"),
    ("another run directory", _argument("--run-dir=/run/onecopy", "--run-dir=/tmp"), "--run-dir"),
    ("no time to drain", _set(_daemon, "terminationGracePeriodSeconds", 30), "the time to stop"),
    ("a volume that is not there", lambda d: _daemon(d)["volumes"].pop(0), "no volume certificates"),
    ("a probe of gRPC, which is without TLS",
     lambda d: _first(d).update(readinessProbe={"grpc": {"port": 7701}}), "readinessProbe"),
    ("a name of another Service", lambda d: _of("Service")(d)["metadata"].update(namespace="other"), "dns_name"),
    ("a key that the configuration does not have", _config("kind = ", "kinds = "), "kinds"),
    ("discovery by A records without certificates", _config("[tls]", "[log]"), "config.toml"),
    ("a folder that is not mounted", _config("/etc/onecopy/node/node.key", "/etc/onecopy/key/node.key"), "/etc/onecopy/key"),
    ("a pod of the host's network that asks the host's DNS", lambda d: _daemon(d).pop("dnsPolicy"), "cluster's DNS"),
)


def edited(documents, edit):
    changed = copy.deepcopy(documents)
    edit(changed)
    return changed

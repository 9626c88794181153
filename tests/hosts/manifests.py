"""Reads from the manifests that `telar launch --on kubernetes` renders what they run."""

import pathlib

import yaml  # Debian's python3-yaml


class Workload:
    """A StatefulSet, Deployment or Job with one container: its command, mounts, ports and probes."""

    def __init__(self, document):
        spec = document["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        self.kind = document["kind"]
        self.name = document["metadata"]["name"]
        self.labels = spec["template"]["metadata"]["labels"]
        self.service = spec.get("serviceName")
        self.replicas = spec.get("replicas", spec.get("parallelism", 1))
        self.command = container["command"]
        self.user = pod["securityContext"]["runAsUser"]
        self.grace = pod["terminationGracePeriodSeconds"]
        self.ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        self.probed = {self.ports[probe["tcpSocket"]["port"]]
                       for name, probe in container.items() if name.endswith("Probe")}
        kinds = {volume["name"]: volume for volume in pod["volumes"]}
        kinds |= {claim["metadata"]["name"]: {"own": True} for claim in spec.get("volumeClaimTemplates", [])}
        self.mounts = {mount["mountPath"]: kinds[mount["name"]] for mount in container["volumeMounts"]}


class Manifests:
    def __init__(self, folder):
        documents = [document for file in sorted(pathlib.Path(folder).iterdir())
                     for document in yaml.safe_load_all(file.read_text())]
        self.workloads = {document["metadata"]["name"]: Workload(document)
                          for document in documents if "template" in document.get("spec", {})}
        self.services = {document["metadata"]["name"]: document["spec"]
                         for document in documents if document["kind"] == "Service"}
        (self.job,) = [document["data"]["job.yaml"] for document in documents if document["kind"] == "ConfigMap"]

    def selected_by(self, service):
        selector = self.services[service]["selector"].items()
        return [workload for workload in self.workloads.values() if selector <= workload.labels.items()]

"""Renders jobs by `telar launch --on kubernetes`, and checks what comes: each document against the schemas of
Kubernetes 1.28 to the newest (kubernetes-validate), and that the documents belong to each other.

    check_kubernetes.py TELAR
"""

import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

JOB = """
name: A_job.1
model: mlp
data: {source: synthetic, samples: 64, shape: [1, 4, 4], classes: 3}
training: {batch: 8, epochs: 1}
"""
OLDEST = 28
STORED = ["--storage", "s3://bucket/run"]
RENDERED = {
    "lockstep": (["--processes", "3"], {"first.yaml", "workers.yaml"}),
    "elastic": (["--processes", "3", "--set", "strategy.min_workers=2", "--cpus", "4", "--memory", "8Gi", "--gpus", "1", *STORED], {"first.yaml", "workers.yaml"}),
    "alone": (["--processes", "1"], {"first.yaml"}),
    "servers": (["--set", "strategy={name: downpour, workers: 2, servers: 2}", "--restarts", "7"], {"first.yaml", "workers.yaml", "servers.yaml"}),
    "one_server": (["--set", "strategy={name: async_sgd, workers: 2, servers: 1}"], {"first.yaml", "workers.yaml", "servers.yaml"}),
}


def launch(telar, folder, name, words):
    return subprocess.run([telar, "launch", "job.yaml", "--on", "kubernetes", "--render", name, *words], cwd=folder, capture_output=True, text=True, check=False)


def pod_of(document):
    return document["spec"]["template"]["spec"]


def check_together(telar, folder, documents, said):
    by_kind = {}
    for document in documents:
        by_kind.setdefault(document["kind"], []).append(document)
    (config,) = by_kind["ConfigMap"]
    (account,) = by_kind["ServiceAccount"]
    (policy,) = by_kind["NetworkPolicy"]
    name = account["metadata"]["name"]
    assert name == "a-job-1", name
    (folder / "pod-job.yaml").write_text(config["data"]["job.yaml"])
    done = subprocess.run([telar, "train", "pod-job.yaml", "--check"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    services = {service["metadata"]["name"]: service["spec"] for service in by_kind["Service"]}
    workloads = by_kind["Job"] + by_kind.get("StatefulSet", []) + by_kind.get("Deployment", [])
    claims = {claim["metadata"]["name"] for claim in by_kind.get("PersistentVolumeClaim", [])}
    for workload in workloads:
        template = workload["spec"]["template"]
        labels = template["metadata"]["labels"]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        assert policy["spec"]["ingress"] == [{"from": [{"podSelector": policy["spec"]["podSelector"]}]}]
        pod = template["spec"]
        (container,) = pod["containers"]
        assert pod["serviceAccountName"] == name and pod["automountServiceAccountToken"] is False
        volumes = {volume["name"]: volume for volume in pod["volumes"]} | {claim["metadata"]["name"]: {} for claim in workload["spec"].get("volumeClaimTemplates", [])}
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes), volumes
        assert volumes["security"]["secret"]["secretName"] == f"{name}-security"
        if "job" in volumes:
            assert volumes["job"]["configMap"]["name"] == config["metadata"]["name"]
        assert claims >= {volume["persistentVolumeClaim"]["claimName"] for volume in volumes.values() if "persistentVolumeClaim" in volume}
        if workload["kind"] == "Job":
            assert pod["restartPolicy"] == "Never" and pod["terminationGracePeriodSeconds"] >= 300 and "ttlSecondsAfterFinished" in workload["spec"]
        else:
            assert "restartPolicy" not in pod
        command = container["command"]
        if "--join" in command:
            service = services[command[command.index("--join") + 1].split(":")[0]]
            (target,) = [other for other in workloads if service["selector"].items() <= other["spec"]["template"]["metadata"]["labels"].items()]
            assert target["metadata"]["name"] == f"{name}-first" and service["publishNotReadyAddresses"] and service["clusterIP"] == "None"
    job = yaml.safe_load(config["data"]["job.yaml"])
    servers = by_kind.get("StatefulSet", [])
    addresses = [f"{name}-server-{number}.{name}-server:7001" for server in servers for number in range(server["spec"]["replicas"])]
    assert job["strategy"].get("server_addresses", []) == addresses, job["strategy"]
    certified = [address.split(":")[0] for address in addresses] + [f"{name}-first"]
    assert "kubectl delete --cascade=foreground job a-job-1-first" in said and "Kubernetes 1.29" in said, said
    assert "scripts/certs certs " + " ".join(certified) + "\n" in said, said
    for server in servers:
        assert services[server["spec"]["serviceName"]]["selector"] == server["spec"]["selector"]["matchLabels"]
        (apart,) = pod_of(server)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (budget,) = by_kind["PodDisruptionBudget"]
        assert budget["spec"] == {"maxUnavailable": 1, "selector": server["spec"]["selector"]}
        assert apart["labelSelector"] == server["spec"]["selector"]
    return {workload["metadata"]["name"].removeprefix(name + "-"): workload for workload in workloads}


def main():
    telar = pathlib.Path(sys.argv[1]).resolve()
    versions = range(OLDEST, int(kubernetes_validate.latest_version().split(".")[1]) + 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        (folder / "job.yaml").write_text(JOB)
        found = {}
        for name, (words, files) in RENDERED.items():
            for _ in range(2):  # a second time into the same folder
                done = launch(telar, folder, name, ["--image", "registry/telar:1", *words])
                assert done.returncode == 0, done.stderr
            assert {file.name for file in (folder / name).iterdir()} == files | {"common.yaml"}
            documents = [document for file in sorted((folder / name).iterdir()) for document in yaml.safe_load_all(file.read_text())]
            for document in documents:
                for version in versions:
                    kubernetes_validate.validate(document, f"1.{version}", strict=True)
            found[name] = check_together(telar, folder, documents, done.stdout)
        indexed = found["elastic"]["worker"]["spec"]
        assert (indexed["completionMode"], indexed["parallelism"], indexed["completions"], indexed["backoffLimitPerIndex"]) == ("Indexed", 2, 2, 3)
        resources = pod_of(found["elastic"]["worker"])["containers"][0]["resources"]
        assert resources == {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1}}, resources
        first = pod_of(found["elastic"]["first"])
        assert {"name": "runs", "emptyDir": {}} in first["volumes"] and first["containers"][0]["envFrom"][0]["secretRef"]["name"] == "a-job-1-storage"
        assert found["servers"]["first"]["spec"]["backoffLimit"] == 7
        waits = {name: "--wait" in pod_of(workloads["first"])["containers"][0]["command"] for name, workloads in found.items()}
        assert waits == {"lockstep": True, "elastic": True, "alone": False, "servers": False, "one_server": False}, waits
        for name, workloads in found.items():
            late = name != "alone" and workloads["worker"]["kind"] == "Job"
            assert ("--linger" in pod_of(workloads["first"])["containers"][0]["command"]) == late, name
        assert "--snapshots" in pod_of(found["one_server"]["server"])["containers"][0]["command"]
        assert "--snapshots" not in pod_of(found["servers"]["server"])["containers"][0]["command"]

        for what, name, words in (("say with --render DIR", "", ["--on", "kubernetes", "--processes", "2"]),
                                  ("say with --processes", "none", ["--on", "kubernetes", "--render", "none", "--image", "i"]),
                                  ("name with --image", "none", ["--on", "kubernetes", "--render", "none", "--processes", "2"]),
                                  ("from a Secret", "none", ["--on", "kubernetes", "--render", "none", "--image", "i", "--processes", "2", "--insecure-network"]),
                                  ("is no name on Kubernetes", "none", ["--on", "kubernetes", "--render", "none", "--image", "i", "--processes", "2", "--set", "name=1st"]),
                                  ("are for --on kubernetes", "none", ["--processes", "2", "--render", "none"]),
                                  ("has another file", "", ["--on", "kubernetes", "--render", ".", "--image", "i", "--processes", "2"])):
            done = subprocess.run([telar, "launch", "job.yaml", *words], cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 2 and what in done.stderr, (what, done.returncode, done.stderr)
            assert not (folder / "none").exists(), what
    print(f"{len(RENDERED)} runs conform to Kubernetes 1.{versions[0]} to 1.{versions[-1]}")


if __name__ == "__main__":
    main()

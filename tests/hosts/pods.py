"""Runs the command lines of deploy/kubernetes's manifests, each on its own simulated host, with the names
that a cluster's DNS would give them. For scripts/hosts-test."""

import json
import os
import pathlib
import signal
import time

from hosts import Hosts
from manifests import Manifests

FIRST = 100  # the first address is 10.87.0.100
PROGRAM = "/srv/program"
ENDED = 128 + signal.SIGTERM


class Pod:
    def __init__(self, workload, name, address):
        self.workload = workload
        self.name = name
        self.address = address
        self.process = None


class Pods:
    """The workloads' pods, and one spare host to which a pod can move."""

    def __init__(self, telar, folder, manifests, epochs, certificates):
        self.telar = pathlib.Path(telar)
        self.folder = folder
        self.manifests = manifests
        counts = {name: workload.replicas for name, workload in manifests.workloads.items()}
        counts[manifests.autoscaler["scaleTargetRef"]["name"]] = manifests.autoscaler["minReplicas"]
        self.pods = []
        for name, count in counts.items():
            for number in range(count):
                self.pods.append(Pod(manifests.workloads[name], f"{name}-{number}", None))
        for number, pod in enumerate(self.pods):
            pod.address = f"10.87.0.{FIRST + number}"
        self.spare_host = ("elsewhere", f"10.87.0.{FIRST + len(self.pods)}")
        self.hosts = Hosts({**{pod.name: pod.address for pod in self.pods}, **dict([self.spare_host])},
                           "1gbit", self.dns())
        job = folder / "job"
        job.mkdir(parents=True)
        (job / "job.yaml").write_text(manifests.job.replace("epochs: 6", f"epochs: {epochs}").replace(
            "model: convnet", "model: mlp"))
        names = [name for name in self.dns() if name not in manifests.services or
                 manifests.services[name].get("clusterIP") != "None"]
        certificates(folder / "security", names)
        (folder / "security" / "token").write_text("a-token-of-this-test\n")

    def dns(self, moved=None):
        """The cluster's names. The name of a service resolves to the addresses of its pods. A headless
        service also has a name for each pod. `moved`: a pod that is on the spare host."""
        names = {}
        for service, spec in self.manifests.services.items():
            chosen = self.manifests.selected_by(service)
            pods = [pod for pod in self.pods if pod.workload in chosen]
            names[service] = [self.host_of(pod, moved) for pod in pods]
            if spec.get("clusterIP") == "None":
                names |= {f"{pod.name}.{service}": [self.host_of(pod, moved)] for pod in pods}
        return names

    def host_of(self, pod, moved):
        return self.spare_host[0] if pod.name == moved else pod.name

    def volumes(self, pod):
        """The pod's volumes, owned as the kubelet does it: by the group of the pod's user (fsGroup). Also
        mounts the program, which an image would contain."""
        user = pod.workload.user
        found = {PROGRAM: self.telar.parent}
        for path, volume in pod.workload.mounts.items():
            if "secret" in volume:
                found[path] = self.folder / "security"
            elif "configMap" in volume:
                found[path] = self.folder / "job"
            else:
                found[path] = self.folder / f"volume-{pod.name}-{path.rsplit('/', 1)[1]}"
                found[path].mkdir(exist_ok=True)
                os.chown(found[path], user, user)
        security = self.folder / "security"
        for path in [security, *security.iterdir()]:
            os.chown(path, 0, user)
            path.chmod(0o750 if path.is_dir() else 0o440)
        return found

    def start(self, pod, host=None):
        """Starts a pod as the kubelet does, or restarts it as its controller does."""
        pod.process = self.hosts.start(
            host or pod.name, self.folder / f"{pod.name}.log", pod.workload.command,
            {"PATH": f"{PROGRAM}:{os.environ['PATH']}"}, volumes=self.volumes(pod), user=pod.workload.user)

    def role(self, role):
        return [pod for pod in self.pods if pod.workload.labels["role"] == role]

    def text(self, pod):
        return (self.folder / f"{pod.name}.log").read_text(errors="replace")

    def events(self):
        return "".join(log.read_text(errors="replace") for log in self.folder.rglob("events.log"))


class Play:
    """One run of all pods."""

    def __init__(self, pods, expect):
        self.pods = pods
        self.expect = expect
        (self.coordinator,) = pods.role("coordinator")
        self.servers = pods.role("server")
        self.workers = pods.role("worker")

    def await_text(self, source, what, seconds=60, times=1):
        end = time.monotonic() + seconds
        while source().count(what) < times:
            self.expect(time.monotonic() < end, f"no log contains '{what}' {times} times within {seconds} s")
            time.sleep(0.05)

    def probe(self, pod):
        """Probes the pod as a kubelet's tcpSocket does: connects from its node and closes the connection."""
        for port in pod.workload.probed:
            script = f"import socket; socket.create_connection(({pod.address!r}, {port}), 5).close()"
            done = self.pods.hosts.start("elsewhere", self.pods.folder / "probes.log",
                                         ["/usr/bin/python3", "-c", script])
            self.expect(done.wait(10) == 0, f"the probe of {pod.name} at port {port} failed")

    def replace(self, pod, number, host=None):
        """Ends a pod with this signal, and restarts it as its controller does."""
        self.end(pod, number)
        self.pods.start(pod, host)

    def end(self, pod, number):
        pod.process.send(number)
        code = pod.process.wait(pod.workload.grace)
        right = code == ENDED if number == signal.SIGTERM else code not in (None, 0)
        self.expect(right, f"{pod.name} ended with exit code {code} after signal {number}")

    def begin(self):
        for pod in self.pods.pods:
            self.pods.start(pod)
        for number in range(len(self.workers)):
            self.await_text(self.pods.events, f"joined as worker {number + 1}")
        for pod in self.pods.pods:
            self.probe(pod)

    def disturb(self):
        """Ends a worker's pod as the autoscaler does when it scales down. Loses a server's pod with its node;
        it returns at another address, and is filled. Ends the other server's pod, too, as a rolling update does.
        Kills the coordinator's pod, which resumes from its checkpoint."""
        events = self.pods.events
        self.replace(self.workers[0], signal.SIGTERM)
        self.await_text(events, f"{self.workers[0].name}:1 ({self.workers[0].address}) left")
        self.await_text(events, f"{self.workers[0].name}:1 ({self.workers[0].address}) joined as worker",
                        times=2)
        moved = self.servers[0]
        self.pods.hosts.link(moved.name, False)  # like the node: nothing signals the end of its connections
        self.end(moved, signal.SIGKILL)
        self.pods.hosts.alias(self.pods.dns(moved.name))
        self.pods.start(moved, "elsewhere")
        self.await_text(events, "all variables have 2 copies", times=2)
        self.replace(self.servers[1], signal.SIGTERM)
        self.await_text(events, "all variables have 2 copies", times=3)
        self.expect("no other server is known" not in self.pods.text(self.servers[1]), "a server ended before another had all")
        checkpoints = self.pods.folder / f"volume-{self.coordinator.name}-runs" / "fashion_mnist" / "checkpoints"
        end = time.monotonic() + 300
        while not list(checkpoints.glob("step-*")):
            self.expect(time.monotonic() < end, "there is no checkpoint")
            time.sleep(0.2)
        self.replace(self.coordinator, signal.SIGKILL)
        self.await_text(lambda: self.pods.text(self.coordinator),
                        "resuming /srv/runs/fashion_mnist after step")

    def finish(self):
        for pod in [self.coordinator, *self.workers]:
            code = pod.process.wait(600 if pod is self.coordinator else 60)
            self.expect(code == 0, f"{pod.name} ended with exit code {code}, not 0")
        for pod in self.servers:
            self.end(pod, signal.SIGTERM)


def play(telar, folder, source, epochs, certificates, expect, disturbed):
    """Runs the manifests in the folder `source`; returns the run's summary. `certificates`: a function that
    creates certificates in a folder for some names. `disturbed`: end and restart some pods during the run."""
    pods = Pods(telar, folder, Manifests(source), epochs, certificates)
    with pods.hosts:
        run = Play(pods, expect)
        run.begin()
        if disturbed:
            run.disturb()
        run.finish()
    (summary,) = folder.rglob("summary.json")
    return json.loads(summary.read_text())

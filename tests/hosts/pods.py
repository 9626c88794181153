"""Runs the command lines of the manifests that `telar launch --on kubernetes` renders, each on its own simulated
host, with the names that a cluster's DNS would give them. For scripts/hosts-test."""

import json
import os
import pathlib
import signal
import subprocess
import time

from hosts import Hosts
from manifests import Manifests

FIRST = 100  # the first address is 10.87.0.100
PROGRAM = "/srv/program"
ENDED = 128 + signal.SIGTERM
NAME = "fashion-mnist"  # of the job


class Pod:
    def __init__(self, workload, name, address):
        self.workload = workload
        self.name = name
        self.address = address
        self.process = None


class Pods:
    """The workloads' pods, and one spare host to which a pod can move."""

    def __init__(self, telar, folder, manifests, certificates):
        self.telar = pathlib.Path(telar)
        self.folder = folder
        self.manifests = manifests
        self.pods = [Pod(workload, f"{name}-{number}", None)
                     for name, workload in manifests.workloads.items() for number in range(workload.replicas)]
        for number, pod in enumerate(self.pods):
            pod.address = f"10.87.0.{FIRST + number}"
        self.spare_host = ("elsewhere", f"10.87.0.{FIRST + len(self.pods)}")
        self.hosts = Hosts({**{pod.name: pod.address for pod in self.pods}, **dict([self.spare_host])},
                           "1gbit", self.dns())
        job = folder / "job"
        job.mkdir(parents=True)
        (job / "job.yaml").write_text(manifests.job)
        certificates(folder / "security")
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
        return [pod for pod in self.pods if pod.workload.labels["app.kubernetes.io/component"] == role]

    def text(self, pod):
        return (self.folder / f"{pod.name}.log").read_text(errors="replace")

    def events(self):
        return "".join(log.read_text(errors="replace") for log in self.folder.rglob("events.log"))


class Play:
    """One run of all pods."""

    def __init__(self, pods, expect):
        self.pods = pods
        self.expect = expect
        (self.coordinator,) = pods.role("first")
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
        """Ends a worker's pod as a drained node does. Loses a server's pod with its node;
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
        checkpoints = self.pods.folder / f"volume-{self.coordinator.name}-runs" / NAME / "checkpoints"
        end = time.monotonic() + 300
        while not list(checkpoints.glob("step-*")):
            self.expect(time.monotonic() < end, "there is no checkpoint")
            time.sleep(0.2)
        self.replace(self.coordinator, signal.SIGKILL)
        self.await_text(lambda: self.pods.text(self.coordinator),
                        f"resuming /srv/runs/{NAME} after step")

    def finish(self):
        for pod in [self.coordinator, *self.workers]:
            code = pod.process.wait(600 if pod is self.coordinator else 60)
            self.expect(code == 0, f"{pod.name} ended with exit code {code}, not 0")
        for pod in self.servers:
            self.end(pod, signal.SIGTERM)


def play(telar, folder, job, epochs, certificates, expect, disturbed):
    """Renders a job for Kubernetes, and runs that; returns the run's summary. `certificates`: a function that
    creates certificates in a folder for some names. `disturbed`: end and restart some pods during the run."""
    rendered = folder / "manifests"
    done = subprocess.run([telar, "launch", job, "--on", "kubernetes", "--image", "telar", "--render", rendered, "--set", f"training.epochs={epochs}",
                           "--set", "model=mlp"], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"telar launch --on kubernetes: {done.stderr}")
    (names,) = [line.split()[2:] for line in done.stdout.splitlines() if line.split()[0] == "scripts/certs"]
    pods = Pods(telar, folder, Manifests(rendered), lambda security: certificates(security, names))
    with pods.hosts:
        run = Play(pods, expect)
        run.begin()
        if disturbed:
            run.disturb()
        run.finish()
    (summary,) = folder.rglob("summary.json")
    return json.loads(summary.read_text())

"""Simulates the hosts of a network: network namespaces with their own addresses, joined by a bridge.

    with Hosts({"trainer": "10.87.0.10", "server-0": "10.87.0.11"}, rate="200mbit") as hosts:
        process = hosts.start("server-0", folder / "server-0.log", ["telar", "serve", ...])

Each process sees the network and name of its host and the names of all hosts in /etc/hosts. As in a
container, it is process 1 and sees only its own processes, so it cannot reach the memory of others through
/proc. Needs root.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import time


HEADS = 14 + 20 + 32  # bytes of Ethernet, IPv4, and TCP with timestamps


class CannotBeHere(Exception):
    """Hosts cannot be created on this machine; the text gives the reason."""


def output_of(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBeHere(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


def do(*words):
    output_of(*words)


class Process:
    """A process on a host. Its parent, `unshare`, ends when the process ends, with the same exit code."""

    def __init__(self, words, log, environment, stdin=None):
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as out:
            self.parent = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT,
                                           stdin=stdin or subprocess.DEVNULL,
                                           env={**os.environ, **environment})

    def running(self):
        return self.parent.poll() is None

    def text(self):
        return self.log.read_text(errors="replace")

    def send(self, number):
        children = pathlib.Path(
            f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), number)

    def wait(self, seconds):
        """The exit code as a shell reports it: 143 after SIGTERM. After SIGKILL it is any code except 0,
        because not every `unshare` passes that on. None if the process still runs after this time."""
        try:
            code = self.parent.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        return 128 - code if code < 0 else code


class Hosts:
    def __init__(self, addresses, rate, aliases=None, unlimited=()):
        """`addresses`: the address of each host by its name. `aliases`: additional names, each with the hosts
        whose addresses it resolves to. `rate`: the rate of each host's link in both directions, in tc's
        notation; the links of `unlimited` hosts have no limit."""
        self.addresses = addresses
        self.rate = rate
        self.unlimited = unlimited
        self.mark = f"telar-{os.getpid()}"
        self.made = []
        self.processes = []
        self.names = tempfile.NamedTemporaryFile("w", prefix="hosts-")
        os.chmod(self.names.name, 0o644)
        self.alias(aliases or {})

    def __enter__(self):
        if os.geteuid() != 0:
            raise CannotBeHere("network namespaces need root")
        try:
            switch = self.namespace("switch")
            do("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
            do("ip", "-n", switch, "link", "set", "bridge", "up")
            for number, (name, address) in enumerate(self.addresses.items()):
                host = self.namespace(name)
                port = f"port{number}"
                do("ip", "-n", host, "link", "add", "eth0", "type", "veth",
                   "peer", "name", port, "netns", switch)
                do("ip", "-n", host, "addr", "add", f"{address}/24", "dev", "eth0")
                do("ip", "-n", switch, "link", "set", port, "master", "bridge")
                # Where Docker runs, each host has this bridge, and all have the same address.
                do("ip", "-n", host, "link", "add", "docker0", "type", "bridge")
                do("ip", "-n", host, "addr", "add", "172.17.0.1/16", "dev", "docker0")
                do("ip", "-n", host, "link", "set", "docker0", "up")
                for where, device in ((host, "lo"), (host, "eth0"), (switch, port)):
                    do("ip", "-n", where, "link", "set", device, "up")
                for where, device in ((host, "eth0"), (switch, port)) if name not in self.unlimited else ():
                    do("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate,
                       "burst", "256kb", "latency", "100ms")
            name = next(iter(self.addresses))
            if self.start(name, os.devnull, ["true"]).wait(10) != 0:
                raise CannotBeHere("a process with its own host name and process ids (unshare) cannot be started there")
        except FileNotFoundError as missing:
            self.__exit__()
            raise CannotBeHere(f"the program {missing.filename} is missing (scripts/setup hosts)") from missing
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.running():
                process.parent.send_signal(signal.SIGKILL)  # this also ends its child
                process.parent.wait()
        for name in reversed(self.made):
            subprocess.run(["ip", "netns", "del", name], check=False)
        self.names.close()

    def alias(self, aliases):
        """Replaces the additional names, for all hosts."""
        names = [(address, name) for name, address in self.addresses.items()]
        for alias, hosts in aliases.items():
            names += [(self.addresses[host], alias) for host in hosts]
        self.names.seek(0)
        self.names.truncate()
        self.names.write("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in names))
        self.names.flush()

    def namespace(self, name):
        do("ip", "netns", "add", f"{self.mark}-{name}")
        self.made.append(f"{self.mark}-{name}")
        return self.made[-1]

    def start(self, host, log, words, environment=None, stdin=None, volumes=None, user=None):
        """Starts a process on a host. `volumes`: the folders that it finds under /srv, by their paths there.
        `user`: it runs as this user, without any privileges, and can write only to the volumes."""
        inside = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && '
        if volumes:
            inside += "mount -t tmpfs tmpfs /srv && "
        for path, folder in (volumes or {}).items():
            assert path.startswith("/srv/")
            inside += f"mkdir -p '{path}' && mount --bind '{folder}' '{path}' && "
        if user is not None:
            inside += f"mount -o remount,bind,ro / && exec setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs --bounding-set=-all "
        else:
            inside += "exec "
        inside += '"$@"'
        process = Process(["ip", "netns", "exec", f"{self.mark}-{host}", "unshare", "--uts", "--pid",
                           "--fork", "--kill-child", "--mount-proc", "sh", "-c", inside, "sh", host,
                           self.names.name, *map(str, words)], log, environment or {}, stdin)
        self.processes.append(process)
        return process

    def sent(self, host):
        """The bytes that a host has sent to others over TCP, without the heads of packets: how many packets there are, and
        how many only acknowledge others, depends on the machine."""
        folder = "/sys/class/net/eth0/statistics/"
        counts = output_of("ip", "netns", "exec", f"{self.mark}-{host}", "cat", folder + "tx_bytes", folder + "tx_packets")
        total, packets = map(int, counts.split())
        return total - HEADS * packets

    def link(self, host, up):
        do("ip", "-n", f"{self.mark}-{host}", "link", "set", "eth0", "up" if up else "down")

    def cut(self, host, seconds):
        """Disconnects this host for this time."""
        self.link(host, False)
        time.sleep(seconds)
        self.link(host, True)

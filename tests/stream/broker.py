"""A real broker for tests: Tansu, with Kafka's protocol, and a relay that can cut its connections. It keeps topics in memory, or in
S3, which another process keeps in memory.

The broker and the librdkafka that can connect to it are installed by `scripts/setup stream`.
"""
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import urllib.request


def folder():
    """Where scripts/install-broker has put them; None if it has not."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = pathlib.Path(os.environ.get("TELAR_STREAM") or os.path.join(cache, "telar", "stream"))
    return found if (found / "requirements.txt").exists() else None


def environment():
    """In which telar uses that librdkafka instead of Debian's."""
    libraries = str(folder() / "lib")
    before = os.environ.get("LD_LIBRARY_PATH")
    return dict(os.environ, LD_LIBRARY_PATH=libraries + (":" + before if before else ""))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Relay:
    """Forwards connections to a port, unless it is down."""

    def __init__(self, target):
        self.port = free_port()
        self.target = target
        self.sockets = []
        self.up()

    def up(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def down(self):
        for one in [self.listener] + self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
        self.sockets = []

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.sockets += [client, server]
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Store:
    """S3 in memory (moto), which outlives the broker. with Store() as store: … store.environment"""

    def __enter__(self):
        port = free_port()
        self.process = subprocess.Popen([str(folder() / "bin" / "moto_server"), "--host", "127.0.0.1", "--port", str(port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(port, "moto_server")
        address = "http://127.0.0.1:%d" % port
        urllib.request.urlopen(urllib.request.Request(address + "/tansu", method="PUT")).close()
        self.environment = {"AWS_ENDPOINT": address, "AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Broker:
    """with Broker() as broker: … broker.address. With a store, its topics outlive it: kill() starts another one at its address."""

    def __init__(self, store=None):
        self.store = store

    def __enter__(self):
        self.port = free_port()
        self.relay = Relay(self.port)
        self.address = "127.0.0.1:%d" % self.relay.port
        self._start()
        return self

    def __exit__(self, *_):
        self._end()
        self.relay.down()

    def _start(self):
        self.process = subprocess.Popen(
            [str(folder() / "bin" / "tansu"), "broker", "--silent",
             "--storage-engine", "s3://tansu/" if self.store else "memory://tansu/",
             "--listener-url", "tcp://127.0.0.1:%d" % self.port,
             "--advertised-listener-url", "tcp://" + self.address],
            env=dict(os.environ, **(self.store.environment if self.store else {})),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port, "tansu")

    def _end(self):
        self.process.kill()
        self.process.wait()

    def kill(self):
        """With SIGKILL."""
        self._end()
        self._start()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


def wait_for(port, name):
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(name + " does not listen")

"""A real broker for tests: Tansu, with Kafka's protocol, in memory, and a relay that can cut its connections.

The broker and the librdkafka that can connect to it are installed by `scripts/setup stream`.
"""
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time


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
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
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


class Broker:
    """with Broker() as broker: … broker.address"""

    def __enter__(self):
        self.port = free_port()
        self.relay = Relay(self.port)
        self.address = "127.0.0.1:%d" % self.relay.port
        self.process = subprocess.Popen(
            [str(folder() / "bin" / "tansu"), "broker", "--silent", "--storage-engine", "memory://tansu/",
             "--listener-url", "tcp://127.0.0.1:%d" % self.port,
             "--advertised-listener-url", "tcp://" + self.address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("tansu does not listen")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.relay.down()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

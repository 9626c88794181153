"""A client that sends coordinators and parameter servers what telar never would. It implements HTTP/2 and
gRPC's framing itself.

    answer = Stranger("127.0.0.1:7000", TOKEN).call(COORDINATOR, [b"garbage"])

The answer is gRPC's status, such as 3 (INVALID_ARGUMENT), or None if the connection was cut.
"""

import hashlib
import hmac
import pathlib
import random
import re
import socket
import struct

COORDINATOR = "/telar.members.Members/Work"
SERVER = "/telar.store.Transfers/Exchange"
NETWORK = pathlib.Path(__file__).resolve().parents[2] / "telar" / "comm" / "network.h"
VERSION = re.search(r"kProtocolVersion = (\d+);", NETWORK.read_text())[1]
OTHER_VERSION = str(int(VERSION) + 1)

# Kinds of frames: RFC 9113, section 6.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST = 16384  # bytes of a frame, by default
WINDOW = 65535  # bytes that may be sent, by default
UNAUTHENTICATED = 16  # gRPC's status for a wrong token
INITIAL_WINDOW_SIZE = 4  # the number of a setting


def greet(connection, token):
    """The first bytes of a connection (telar/comm/greeting.h). Returns False if the server refuses the token."""
    proof = hmac.new(token.encode(), b"telar greeting 1", hashlib.sha256).hexdigest()
    connection.sendall(f"CONNECT telar HTTP/1.1\r\nHost: telar\r\ntelar-greeting: {proof}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError("the connection ended within the greeting")
        answer += byte
    return b" 200 " in answer.splitlines()[0]


def send_bytes(address, data):
    """Sends bytes without HTTP/2."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(data)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value):
    """An uncompressed string of HPACK (RFC 7541, section 5.2)."""
    data = value.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, out = len(data) - 127, bytearray([127])
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out) + bytes([rest]) + data


def message(data):
    """The data with gRPC's prefix."""
    return struct.pack(">BI", 0, len(data)) + data


class Stranger:
    def __init__(self, address, token, version=VERSION, metadata=None):
        self.address = address
        self.token = token
        self.metadata = {"telar-token": token, "telar-protocol": version, **(metadata or {})}

    @staticmethod
    def member_of(job):
        """The metadata that opens a stream to a parameter server, in addition to token and version."""
        return {"telar-job": job, "telar-member": "4000", "telar-client": str(random.getrandbits(40)),
                "telar-round": "0"}

    def call(self, path, messages=(), seconds=10):
        """Sends messages that message() has created, and waits for the end of the call; returns its status."""
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": self.address,
                   "content-type": "application/grpc", "te": "trailers", **self.metadata}
        block = b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=seconds) as connection:
            if not greet(connection, self.token):
                return UNAUTHENTICATED
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, block))
            self.rest = b""
            self.window = [WINDOW, WINDOW]  # of the connection, of the stream
            self.status = None
            self.over = False
            try:
                self.take(connection)  # the settings
                for data in messages:
                    for begin in range(0, len(data), LARGEST):
                        self.send(connection, data[begin:begin + LARGEST])
                while not self.over:
                    self.take(connection)
            except TimeoutError as late:
                raise TimeoutError(f"{self.address} does not end the call") from late
            except OSError:
                pass
            return self.status

    def send(self, connection, chunk):
        while min(self.window) < len(chunk) and not self.over:
            self.take(connection)
        if self.over:
            return
        self.window = [left - len(chunk) for left in self.window]
        connection.sendall(frame(DATA, 0, 1, chunk))

    def take(self, connection):
        """Receives and handles the next frame."""
        while len(self.rest) < 9 or len(self.rest) < 9 + int.from_bytes(self.rest[:3], "big"):
            more = connection.recv(1 << 16)
            if not more:
                raise ConnectionError("the connection has ended")
            self.rest += more
        length, kind, flags, stream = (int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4],
                                       self.rest[8])
        payload, self.rest = self.rest[9:9 + length], self.rest[9 + length:]
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, length, 6):
                setting, value = struct.unpack(">HI", payload[at:at + 6])
                if setting == INITIAL_WINDOW_SIZE:
                    self.window[1] += value - WINDOW
            connection.sendall(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            connection.sendall(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self.window[stream] += int.from_bytes(payload, "big")
        elif kind in (GOAWAY, RST_STREAM):
            self.over = True
        elif kind == HEADERS and flags & END_STREAM:
            self.over = True
            name = payload.find(b"grpc-status")
            size = payload[name + 11] if name >= 0 else 0
            self.status = int(payload[name + 12:name + 12 + size]) if size else None

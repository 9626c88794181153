#!/usr/bin/env python3
"""A TCP relay that simulates a bad network.

    relay.py [--delay-ms D] [--loss P] LISTEN=TO...

Each LISTEN and TO is HOST:PORT; a LISTEN with port 0 uses any free port.

Passes connections to LISTEN on to TO, with a delay of D ms. With probability P a chunk (at most 64 KiB) is
lost as in TCP: nothing more arrives until it is sent again, 200 ms later. Prints one line with the addresses
on which it listens. Then it obeys the lines of its standard input: `cut` resets all connections, `stall`
holds back all data, `pass` ends that. It stops at the end of its input.
"""

import argparse
import asyncio
import random
import socket
import struct
import sys

AGAIN = 0.2  # seconds: Linux's shortest time before it retransmits a lost segment
CHUNK = 64 << 10


class Relay:
    def __init__(self, delay, loss):
        self.delay = delay
        self.loss = loss
        self.passing = asyncio.Event()
        self.passing.set()
        self.writers = set()

    async def listen(self, address, to):
        async def connected(reader, writer):
            await self.join(reader, writer, to)

        server = await asyncio.start_server(connected, *address, limit=CHUNK)
        return server.sockets[0].getsockname()

    async def join(self, reader, writer, to):
        try:
            other_reader, other_writer = await asyncio.open_connection(*to, limit=CHUNK)
        except OSError:
            reset(writer)
            return
        both = {writer, other_writer}
        self.writers |= both
        ways = [asyncio.create_task(self.way(reader, other_writer)),
                asyncio.create_task(self.way(other_reader, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for one in both:
            one.close()
        self.writers -= both

    async def way(self, reader, writer):
        """Receives chunks as they arrive; a second task delivers each when it is due, in order."""
        clock = asyncio.get_running_loop().time
        chunks = asyncio.Queue(maxsize=64)

        async def deliver():
            while True:
                due, chunk = await chunks.get()
                if due > clock():
                    await asyncio.sleep(due - clock())
                await self.passing.wait()
                writer.write(chunk)
                await writer.drain()

        delivery = asyncio.create_task(deliver())
        try:
            while chunk := await reader.read(CHUNK):
                lost = random.random() < self.loss
                await chunks.put((clock() + self.delay + (AGAIN if lost else 0), chunk))
                if delivery.done():
                    break
            while not chunks.empty() and not delivery.done():
                await asyncio.sleep(0.01)
        except OSError:
            pass
        finally:
            delivery.cancel()
            await asyncio.gather(delivery, return_exceptions=True)

    def obey(self, word):
        if word == "cut":
            for writer in list(self.writers):
                reset(writer)
        elif word == "stall":
            self.passing.clear()
        elif word == "pass":
            self.passing.set()
        else:
            raise SystemExit(f"relay: unknown command '{word}'; the commands are cut, stall and pass")


def reset(writer):
    """Ends a connection with a reset instead of a normal close."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def serve(options):
    relay = Relay(options.delay_ms / 1000, options.loss)
    names = []
    for pair in options.pairs:
        listen, to = pair.split("=")
        host, port = await relay.listen(address_of(listen), address_of(to))
        names.append(f"{host}:{port}")
    print(*names, flush=True)
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        relay.obey(line.decode().strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--loss", type=float, default=0)
    parser.add_argument("pairs", nargs="+", metavar="LISTEN=TO")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

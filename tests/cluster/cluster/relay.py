"""Passes TCP connections on: python3 -B relay.py LISTEN TO [NAMESPACE], both as HOST:PORT

With a NAMESPACE (a file, as /proc/PID/ns/net) it listens out here and connects in there, which is how this machine reaches a port
in a box: a socket belongs to the namespace in which it was opened, so this process opens the one and then moves.
"""

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def serve(listener, place):
    async def connected(reader, writer):
        try:
            there, back = await asyncio.open_connection(*place)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, back), copy(there, writer))
        back.close()
        writer.close()

    server = await asyncio.start_server(connected, sock=listener)
    await server.serve_forever()


def place(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    listener = socket.create_server(place(sys.argv[1]), backlog=256)
    if len(sys.argv) > 3:
        libc = ctypes.CDLL(None, use_errno=True)
        with open(sys.argv[3], "rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"setns {sys.argv[3]}: {os.strerror(ctypes.get_errno())}")
    asyncio.run(serve(listener, place(sys.argv[2])))


if __name__ == "__main__":
    main()

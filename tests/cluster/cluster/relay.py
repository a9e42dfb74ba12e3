"""Lets the machine reach a server in a box: python3 -B relay.py FD HOST PORT

FD is a listening socket that was opened outside and inherited, so what connects to it comes from outside; HOST:PORT is
connected to from inside.
"""

import asyncio
import socket
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def serve(fd, host, port):
    async def connected(reader, writer):
        try:
            there, back = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, back), copy(there, writer))
        back.close()
        writer.close()

    server = await asyncio.start_server(connected, sock=socket.socket(fileno=fd))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

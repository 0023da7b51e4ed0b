# SPDX-License-Identifier: Apache-2.0
"""What the server programs share: a listening socket, the events of a stream in time, and their log.

A program prints ``{"pid", "port", "libraries"}`` once it listens, serves ``/stream`` with the queries of the lab's
origin (tests/lab/origin.py) until SIGTERM, writes ``--log FILE`` and ends. Its log has a line for each chunk,
``{"type":"send","stream":TAG,"index","from_ns"}``: CLOCK_MONOTONIC, before the program handed the chunk to its
framework; a gateway also has ``{"type":"chunk","stream":TAG,"index","ns"}``, when it had read it.
"""
import argparse
import asyncio
import importlib.metadata
import json
import os
import socket
import time

from origin import Plan

now = time.monotonic_ns
DEFAULTS = argparse.Namespace(chunks=200, interval_ms=8.0, jitter=0.0, first_delay_ms=0.0, size=48)


def parse_options(description, **choices):
    """The options that all programs have, and some with a choice of words each; the first word is the default."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    parser.add_argument("--log", required=True)
    parser.add_argument("--upstream", help="of a gateway: scheme, host and port of its origin")
    for name, words in choices.items():
        parser.add_argument("--" + name, choices=words, default=words[0])
    return parser.parse_args()


def listen():
    """A socket that listens on some port of the loopback."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=64)
    sock.setblocking(False)
    return sock


def announce(sock, *libraries):
    versions = {name: importlib.metadata.version(name) for name in libraries}
    print(json.dumps({"pid": os.getpid(), "port": sock.getsockname()[1], "libraries": versions}), flush=True)


class Log:
    """Lines for each chunk; written at the end."""

    def __init__(self):
        self.sends, self.chunks = [], []

    def send(self, tag, index):
        self.sends.append((tag, index, now()))

    def chunk(self, tag, index):
        self.chunks.append((tag, index, now()))

    def write(self, path):
        with open(path, "w", encoding="utf-8") as out:
            for kind, field, lines in (("send", "from_ns", self.sends), ("chunk", "ns", self.chunks)):
                for tag, index, ns in lines:
                    out.write(json.dumps({"type": kind, "stream": tag, "index": index, field: ns}) + "\n")


async def events(query, log):
    """The events of a stream as bytes, each when it is due, noted when it is handed on. The last is ``[DONE]``."""
    plan = Plan("/stream", query, b"", DEFAULTS)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for due, first, end in plan.groups():
        await asyncio.sleep(max(0.0, begin + due - loop.time()))
        for index in range(first, end):
            log.send(plan.tag, index)
            yield plan.shape.chunk(index)
    yield plan.shape.ending()


def data_of(event):
    """The data of an event of one line."""
    return event[len(b"data: "):].strip().decode()

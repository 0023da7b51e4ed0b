# SPDX-License-Identifier: Apache-2.0
"""What the client programs share: their orders, five streams at a time, and the log of what they read.

A program is told by ``--orders FILE`` what to read: a JSON list of phases, each a list of
``{"tag": NAME, "query": {...}, "leave": K or null}``. The orders of a phase are taken in their order, ``--at-once``
at a time; the next phase begins when all are done. Of a stream with ``leave`` the program takes K chunks and
goes away.

It prints ``{"pid", "python", "libraries"}`` when it is set up, waits for a line on standard input, reads, writes
``--log FILE`` and ends. Its log has the lines of the lab client (tests/lab/client.py):
``{"type":"stream","stream":TAG,"from_ns","end_ns","error"}`` and ``{"type":"chunk","stream":TAG,"index","ns"}``:
CLOCK_MONOTONIC, read when the library had handed the chunk to the program.

Standard library only, Python 3.9 or later.
"""
import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import queue
import ssl
import sys
import threading
import time
from array import array

now = time.monotonic_ns


class Enough(Exception):
    """The program has taken all chunks that it wants of a stream."""


class Stream:
    """One response as the program sees it. Times lie in an array of integers, which the collector ignores."""

    def __init__(self, order):
        self.tag = order["tag"]
        self.query = dict(order["query"], tag=self.tag, named=1)
        self.leave = order.get("leave")
        self.times = array("q")
        self.begin = self.end = None
        self.error = None

    def chunk(self):
        """A chunk has come. Raises Enough where it was the last that is wanted."""
        self.times.append(now())
        if self.leave is not None and len(self.times) >= self.leave:
            raise Enough

    def run_now(self):
        self.begin = now()

    def over(self, error=None):
        self.end = now()
        if error is not None and not isinstance(error, Enough):
            self.error = "%s: %s" % (type(error).__name__, error)


def parse_options(description, *more):
    """The options that all programs have. `more` are names of flags."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--url", required=True, help="of the origin: scheme, host and port")
    parser.add_argument("--orders", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--cafile")
    parser.add_argument("--at-once", type=int, default=5)
    for name in more:
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


def tls_context(options):
    """For https, an SSLContext that trusts --cafile."""
    return ssl.create_default_context(cafile=options.cafile) if options.url.startswith("https") else None


def take_streams(options, *libraries):
    """Says that the program is set up, waits for its sign, and gives the phases as lists of Streams."""
    with open(options.orders, encoding="utf-8") as text:
        phases = [[Stream(order) for order in phase] for phase in json.load(text)]
    versions = {name: importlib.metadata.version(name) for name in libraries}
    print(json.dumps({"pid": os.getpid(), "python": platform.python_version(), "libraries": versions}), flush=True)
    sys.stdin.readline()
    return phases


def write_log(options, phases):
    with open(options.log, "w", encoding="utf-8") as out:
        for stream in [stream for phase in phases for stream in phase]:
            out.write(json.dumps({"type": "stream", "stream": stream.tag, "from_ns": stream.begin,
                                  "end_ns": stream.end, "error": stream.error}) + "\n")
            for index, ns in enumerate(stream.times):
                out.write('{"type":"chunk","stream":%s,"index":%d,"ns":%d}\n' % (json.dumps(stream.tag), index, ns))


def read_in_threads(options, libraries, make):
    """Reads with blocking calls, on --at-once threads. `make` is called on each and gives the function that reads
    a Stream: it opens it by its `query` and calls `chunk()` for each chunk."""
    phases = take_streams(options, *libraries)
    for phase in phases:
        orders = queue.SimpleQueue()
        for stream in phase:
            orders.put(stream)

        def work(orders=orders):
            read = make()
            while True:
                try:
                    stream = orders.get_nowait()
                except queue.Empty:
                    return
                stream.run_now()
                try:
                    read(stream)
                    stream.over()
                except Exception as error:  # what the library says of a cut stream is noted, and told
                    stream.over(error)

        workers = [threading.Thread(target=work) for _ in range(options.at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    write_log(options, phases)


def read_in_tasks(options, libraries, main, run=asyncio.run):
    """Reads in --at-once tasks of one loop. `main` is an async function that is given another one, and awaits it
    with the async function that reads a Stream."""
    phases = take_streams(options, *libraries)

    async def read_all(read):
        for phase in phases:
            orders = iter(phase)

            async def work(orders=orders):
                for stream in orders:
                    stream.run_now()
                    try:
                        await read(stream)
                        stream.over()
                    except Exception as error:  # as above
                        stream.over(error)

            await asyncio.gather(*(work() for _ in range(options.at_once)))

    run(main(read_all))
    write_log(options, phases)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stream reader that knows its own truth: when it collected, and when each chunk reached it.

Standard library only, Python 3.8 or later. It reads SSE streams of tests/lab/origin.py and behaves badly
on purpose, as --scenario says (several names, separated by commas, may be given):

plain         only reads
guilty        gc.collect() over the heap on the reading thread after every --every chunks
innocent      gc.collect() right after the chunk in front of a silence= of the URL, so that it costs nothing
busy          computes for --busy-ms after every --every chunks, without a collection
other-thread  a second thread calls gc.collect() every --period-ms
auto          automatic collections, with --alloc cyclic objects made per chunk, the last 20,000 kept
collect-rate  gc.collect(0), --gc-rate times a second, on the event loop or on a thread

Automatic collections are off except in ``auto``. "Every" counts the chunks of all streams together; with
guilty, busy: busy acts half way between two collections.

When the heap is built and measured, it prints one line ``{"pid": N, ...}`` and waits for a line on standard
input or for --go-file; connections are made after that.

--log FILE gets JSON lines at the end, times from time.monotonic_ns():

pause   begin_ns, end_ns, generation, collected, tid
chunk   stream, index, ns: the first Python line after the read that completed the event returned
stream  stream, request_ns, end_ns, chunks, comments, bytes, tid, local and peer address
mark    what, ns: ``go`` and ``done`` enclose all streams; ``busy`` and the scenario's own collections.
        Collections that the interpreter makes while it exits come after ``done`` and are not listed.

The chunk log lies in arrays of integers, which the collector does not see.
"""

import argparse
import asyncio
import collections
import gc
import http.client
import io
import itertools
import json
import os
import random
import ssl
import sys
import threading
import time
from array import array
from urllib.parse import parse_qs, urlsplit

now = time.monotonic_ns
READ_SIZE = 65536
HEAP_WINDOW_MS = (120.0, 250.0)
HEAP_TARGET_MS = 170.0
RECENT = 20000


class Truth:
    """What happened in this process, in arrays; written out once at the end."""

    def __init__(self):
        self.pauses = array("q")  # begin, end, generation, collected, tid
        self.chunks = array("q")  # number of the stream, index, ns
        self.streams = []
        self.marks = []
        self.begin = 0
        self.tid = 0

    def on_gc(self, phase, info):
        """A gc.callbacks entry. The clock is the last thing read before and the first after a collection."""
        if phase == "start":
            self.tid = threading.get_native_id()
            self.begin = now()
            return
        end = now()
        self.pauses.extend((self.begin, end, info["generation"], info["collected"], self.tid))

    def mark(self, what, **more):
        """Notes that something began now."""
        self.marks.append(dict({"type": "mark", "what": what, "ns": now()}, **more))

    def write(self, path):
        """Writes everything as JSON lines."""
        with open(path, "w", encoding="ascii") as out:
            for mark in self.marks:
                out.write(json.dumps(mark) + "\n")
            for at in range(0, len(self.pauses), 5):
                begin, end, generation, collected, tid = self.pauses[at : at + 5]
                pause = {"type": "pause", "begin_ns": begin, "end_ns": end}
                pause.update(generation=generation, collected=collected, tid=tid)
                out.write(json.dumps(pause) + "\n")
            for stream in self.streams:
                out.write(json.dumps(stream.record) + "\n")
            for at in range(0, len(self.chunks), 3):
                number, index, ns = self.chunks[at : at + 3]
                name = json.dumps(self.streams[number].tag)
                out.write('{"type":"chunk","stream":%s,"index":%d,"ns":%d}\n' % (name, index, ns))


class Stream:
    """Splits the body of one response into SSE events and logs those that are chunks."""

    def __init__(self, truth, tag, on_chunk):
        self.tag = tag
        self.truth = truth
        self.on_chunk = on_chunk
        self.number = len(truth.streams)
        self.log = truth.chunks
        self.index = 0
        self.tail = b""
        self.record = {"type": "stream", "stream": tag, "request_ns": None, "end_ns": None}
        self.record.update(chunks=0, comments=0, bytes=0)
        truth.streams.append(self)

    def sent(self, sock):
        """Notes that the request has been written to ``sock``."""
        self.record["request_ns"] = now()
        self.record["tid"] = threading.get_native_id()
        self.record["local"] = "%s:%d" % sock.getsockname()[:2]
        self.record["peer"] = "%s:%d" % sock.getpeername()[:2]

    def feed(self, body, ns):
        """Takes body bytes whose read had returned at ``ns``; lines end in LF or CR LF."""
        self.record["bytes"] += len(body)
        data = self.tail + body
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        blocks = data.split(b"\n\n")
        self.tail = blocks.pop()
        fresh = 0
        for block in blocks:
            lines = block.split(b"\n")
            payload = [line for line in lines if line.startswith(b"data")]
            if not payload:
                self.record["comments"] += 1
            elif payload[0] != b"data: [DONE]":
                self.log.extend((self.number, self.index + fresh, ns))
                fresh += 1
        for _ in range(fresh):
            self.index += 1
            self.on_chunk(self, self.index - 1)

    def ended(self):
        """The response is over."""
        self.record["chunks"] = self.index
        self.record["end_ns"] = now()


class TimedRaw(io.RawIOBase):
    """A socket's raw reader that notes when its last read returned, in ``ns``."""

    def __init__(self, sock, original):
        super().__init__()
        self.sock = sock
        self.original = original
        self.ns = 0

    def readable(self):
        """It only reads."""
        return True

    def readinto(self, buffer):
        """One recv or SSL_read; the clock is read on the next line."""
        size = self.sock.recv_into(buffer)
        self.ns = now()
        return size

    def close(self):
        """Lets go of the socket, which http.client keeps open through the original reader."""
        self.original.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """http.client's response, reading through a TimedRaw."""

    def __init__(self, sock, *args, **kwargs):
        super().__init__(sock, *args, **kwargs)
        self.raw = TimedRaw(sock, self.fp)
        self.fp = io.BufferedReader(self.raw)


class Reader:
    """The three ways to read streams: one after another, on threads, or as asyncio tasks."""

    def __init__(self, options, truth, on_chunk):
        self.options = options
        self.truth = truth
        self.on_chunk = on_chunk
        self.url = urlsplit(options.url)
        self.tls = None
        if options.tls or self.url.scheme == "https":
            self.tls = ssl.create_default_context(cafile=options.cafile)

    def stream(self, connection, turn):
        """A new stream and the path to ask for: the URL's, with a tag of its own."""
        tag = "s%d.%d" % (connection, turn)
        query = self.url.query + "&" if self.url.query else ""
        path = "%s?%stag=%s" % (self.url.path or "/", query, tag)
        return Stream(self.truth, tag, self.on_chunk), path

    def read_blocking(self, connection):
        """Reads --keep-alive streams one after another on one http.client connection."""
        host, port, wait = self.url.hostname, self.url.port, self.options.timeout
        if self.tls:
            link = http.client.HTTPSConnection(host, port, timeout=wait, context=self.tls)
        else:
            link = http.client.HTTPConnection(host, port, timeout=wait)
        link.response_class = TimedResponse
        for turn in range(self.options.keep_alive):
            stream, path = self.stream(connection, turn)
            link.request("GET", path, headers={"Accept": "text/event-stream"})
            stream.sent(link.sock)
            response = link.getresponse()
            if response.status != 200:
                raise RuntimeError("status %d" % response.status)
            while True:
                body = response.read1(READ_SIZE)
                if not body:
                    break
                stream.feed(body, response.raw.ns)
            response.close()  # Before 3.10 read1() leaves it open behind a Content-Length.
            stream.ended()
        link.close()

    def sync(self):
        """All connections one after another on this thread."""
        for connection in range(self.options.streams):
            self.read_blocking(connection)

    def threads(self):
        """One thread for each connection."""
        failures = []

        def work(connection):
            try:
                self.read_blocking(connection)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failures.append(error)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(self.options.streams)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]

    async def read_async(self, connection):
        """Reads --keep-alive streams one after another on one asyncio connection."""
        host, port = self.url.hostname, self.url.port or (443 if self.tls else 80)
        reader, writer = await asyncio.open_connection(host, port, ssl=self.tls)
        body = AsyncBody(reader)
        for turn in range(self.options.keep_alive):
            stream, path = self.stream(connection, turn)
            head = "GET %s HTTP/1.1\r\nHost: %s:%d\r\nAccept: text/event-stream\r\n\r\n"
            writer.write((head % (path, host, port)).encode())
            stream.sent(writer.get_extra_info("socket"))
            await body.read(stream.feed)
            stream.ended()
        writer.close()
        try:
            await writer.wait_closed()
        except OSError:
            pass  # The server closed first.

    async def asyncio(self, extra):
        """All connections at once on one loop, with the scenario's own task beside them."""
        tasks = [self.read_async(n) for n in range(self.options.streams)]
        side = asyncio.ensure_future(extra()) if extra else None
        await asyncio.gather(*tasks)
        if side:
            side.cancel()


class AsyncBody:
    """HTTP/1.1 responses from an asyncio.StreamReader, each byte with the time of the read that brought it."""

    def __init__(self, reader):
        self.reader = reader
        self.reads = collections.deque()
        self.buffer = b""
        self.ns = 0
        self.feed_data = reader.feed_data
        reader.feed_data = self.note

    def note(self, data):
        """In place of StreamReader.feed_data: the first own line after the event loop's read."""
        self.reads.append((len(data), now()))
        self.feed_data(data)

    async def more(self):
        """Appends what one read of the event loop brought to the buffer. False at the end."""
        if not self.reads:
            # Sleeps until something came without taking it; read(n) would mix several reads.
            first = await self.reader.read(1)
            if not first:
                return False
            size, self.ns = self.reads.popleft()
            self.buffer += first + (await self.reader.readexactly(size - 1) if size > 1 else b"")
            return True
        size, self.ns = self.reads.popleft()
        self.buffer += await self.reader.readexactly(size)
        return True

    async def line(self):
        """One line without its end."""
        while b"\r\n" not in self.buffer:
            if not await self.more():
                raise EOFError("the connection ended inside a response")
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    async def body(self, size, feed):
        """Hands on ``size`` body bytes, or all until the end of the connection if it is None."""
        while size is None or size > 0:
            if not self.buffer and not await self.more():
                if size is None:
                    return
                raise EOFError("the connection ended inside a body")
            part = self.buffer if size is None else self.buffer[:size]
            self.buffer = self.buffer[len(part) :]
            size = None if size is None else size - len(part)
            feed(part, self.ns)

    async def read(self, feed):
        """Reads one response and hands its body to ``feed(bytes, ns)``."""
        if b" 200 " not in await self.line():
            raise RuntimeError("the status is not 200")
        headers = {}
        while True:
            line = await self.line()
            if not line:
                break
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        if headers.get(b"transfer-encoding") != b"chunked":
            length = headers.get(b"content-length")
            await self.body(int(length) if length else None, feed)
            return
        while True:
            size = int((await self.line()).partition(b";")[0], 16)
            if size == 0:
                break
            await self.body(size, feed)
            await self.line()
        while await self.line():
            pass


class Node:
    """An object that refers to itself through its child, as parsed responses do."""

    def __init__(self):
        self.children = [self]


class Scenario:
    """What the process does beside reading. ``on_chunk`` runs on the reading thread after each chunk."""

    def __init__(self, options, truth):
        self.options = options
        self.truth = truth
        self.names = options.scenario.split(",")
        self.counter = itertools.count(1)
        self.left = options.collections
        self.stopped = threading.Event()
        self.recent = collections.deque(maxlen=RECENT)
        self.before_silence = set()
        if "innocent" in self.names:
            silences = parse_qs(urlsplit(options.url).query).get("silence", [""])[0]
            self.before_silence = {
                int(part.partition(":")[0]) - 1 for part in silences.split(",") if part
            }
        actions = {"guilty": self.guilty, "innocent": self.innocent, "busy": self.busy, "auto": self.allocate}
        self.actions = [actions[name] for name in self.names if name in actions]

    def on_chunk(self, stream, index):
        """Acts after a chunk as the scenario's names say."""
        count = next(self.counter)
        for action in self.actions:
            action(count, stream, index)

    def collect(self, what, stream, index):
        """One full collection with its reason in the log."""
        if self.left:
            self.left -= 1
            self.truth.mark(what, stream=stream.tag, index=index)
            gc.collect()

    def guilty(self, count, stream, index):
        """Collects while the following chunks queue."""
        if count % self.options.every == 0:
            self.collect("guilty", stream, index)

    def innocent(self, count, stream, index):
        """Collects while the server is silent anyway."""
        del count
        if index in self.before_silence:
            self.collect("innocent", stream, index)

    def busy(self, count, stream, index):
        """Holds the interpreter without collecting."""
        every = self.options.every
        offset = every // 2 if "guilty" in self.names else 0
        if count % every == offset:
            self.truth.mark("busy", stream=stream.tag, index=index)
            until = now() + int(self.options.busy_ms * 1e6)
            while now() < until:
                pass

    def allocate(self, count, stream, index):
        """Makes cyclic objects, of which only the collector frees those that are no longer recent."""
        del count, stream, index
        for _ in range(self.options.alloc):
            self.recent.append(Node())

    def every_ms(self, period_ms, generation):
        """Thread body: collects on an absolute schedule until stopped, catching up after a delay."""
        due = now()
        while not self.stopped.is_set():
            due += int(period_ms * 1e6)
            delay = due - now()
            if delay > 0:
                time.sleep(delay / 1e9)
            if not self.stopped.is_set():
                gc.collect(generation)

    async def rate_on_loop(self):
        """The collect-rate scenario as a task of the event loop."""
        period = int(1e9 / self.options.gc_rate)
        due = now() + period
        while True:
            while due <= now():
                gc.collect(0)
                due += period
            await asyncio.sleep(max(0, due - now()) / 1e9)

    def run(self, reader):
        """Reads all streams in the chosen mode with the scenario's side activity."""
        threads = []
        if "other-thread" in self.names:
            threads.append((self.options.period_ms, 2))
        side = None
        if "collect-rate" in self.names:
            if self.options.mode == "asyncio":
                side = self.rate_on_loop
            else:
                threads.append((1e3 / self.options.gc_rate, 0))
        workers = [threading.Thread(target=self.every_ms, args=args, daemon=True) for args in threads]
        for worker in workers:
            worker.start()
        if "auto" in self.names:
            if self.options.threshold:
                gc.set_threshold(*(int(part) for part in self.options.threshold.split(",")))
            gc.enable()
        if self.options.mode == "asyncio":
            asyncio.run(reader.asyncio(side))
        else:
            getattr(reader, self.options.mode)()
        gc.disable()
        self.stopped.set()
        for worker in workers:
            worker.join()


def empty_lists(count):
    """``count`` containers of nothing: the cost of a collection lies in their number."""
    return [[] for _ in range(count)]


def long_lists(count):
    """``count`` lists of 1,000 strings in random order: few containers, many references.

    An automatic full collection has to wait until the containers that survived since the last one are a
    quarter of all; with millions of empty lists it would never come.
    """
    pool = ["text %d" % n for n in range(400000)] if count else []
    return [random.choices(pool, k=1000) for _ in range(count)]


def build_heap(wanted, make, first):
    """A heap of ``wanted`` objects from make(count), or as many as make a collection take long enough.

    Starts with ``first`` of them. Returns the heap and the milliseconds of a full collection, in CPU time, so
    that a busy machine does not make the heap smaller.
    """
    heap = []
    size = int(wanted) if wanted != "auto" else first
    for _ in range(12):
        del heap[size:]
        heap.extend(make(size - len(heap)))
        times = []
        for _ in range(3):
            begin = time.thread_time_ns()
            gc.collect()
            times.append((time.thread_time_ns() - begin) / 1e6)
        took = sorted(times)[1]
        if wanted != "auto" or HEAP_WINDOW_MS[0] <= took <= HEAP_WINDOW_MS[1]:
            break
        # The cost is not quite linear (caches), so it approaches in steps of at most four.
        size = int(size * min(4.0, max(0.25, HEAP_TARGET_MS / max(took, 0.1))))
    return heap, took


def wait_for_go(options):
    """Blocks until a line (or the end) of standard input, or until the go file exists."""
    if not options.go_file:
        sys.stdin.readline()
        return
    while not os.path.exists(options.go_file):
        time.sleep(0.01)


def parse_options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--mode", choices=("sync", "asyncio", "threads"), default="sync")
    parser.add_argument("--streams", type=int, default=1, help="connections")
    parser.add_argument("--keep-alive", type=int, default=1, metavar="R", help="streams a connection")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--cafile")
    parser.add_argument("--timeout", type=float, help="socket timeout in seconds (blocking modes)")
    parser.add_argument("--log", metavar="FILE")
    parser.add_argument("--go-file", metavar="FILE")
    parser.add_argument("--scenario", default="plain", metavar="NAME[,NAME]")
    parser.add_argument("--heap", default="", help="live lists, or auto (the default where collections hurt)")
    parser.add_argument("--every", type=int, default=25, help="chunks")
    parser.add_argument("--collections", type=int, default=-1, help="full collections at most")
    parser.add_argument("--busy-ms", type=float, default=200.0)
    parser.add_argument("--period-ms", type=float, default=400.0)
    parser.add_argument("--threshold", metavar="A,B,C")
    parser.add_argument("--alloc", type=int, default=200, help="cyclic objects a chunk")
    parser.add_argument("--gc-rate", type=float, default=100.0, help="collections a second in all")
    options = parser.parse_args()
    names = {"plain", "guilty", "innocent", "busy", "other-thread", "auto", "collect-rate"}
    chosen = set(options.scenario.split(","))
    if not chosen <= names:
        parser.error("--scenario: " + ", ".join(sorted(names)))
    if not options.heap:
        options.heap = "auto" if chosen & {"guilty", "innocent", "other-thread", "auto"} else "0"
    return options


def main():
    """Builds the heap, waits for the start signal, reads the streams, writes the log."""
    options = parse_options()
    gc.disable()
    truth = Truth()
    scenario = Scenario(options, truth)
    reader = Reader(options, truth, scenario.on_chunk)
    kind = (long_lists, 3000) if "auto" in scenario.names else (empty_lists, 500000)
    heap, took = build_heap(options.heap, *kind)
    ready = {"pid": os.getpid(), "heap": len(heap), "collect_ms": round(took, 1)}
    print(json.dumps(ready), flush=True)
    wait_for_go(options)
    truth.mark("go", heap=len(heap), collect_ms=round(took, 1), python=sys.version.split()[0])
    gc.callbacks.append(truth.on_gc)
    try:
        scenario.run(reader)
    finally:
        gc.callbacks.remove(truth.on_gc)
        truth.mark("done")
        if options.log:
            truth.write(options.log)
    return 0


if __name__ == "__main__":
    sys.exit(main())

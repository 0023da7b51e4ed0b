# SPDX-License-Identifier: Apache-2.0
"""How the lab client reads streams, and its log of the truth. Standard library only, Python 3.8 or later."""

import asyncio
import collections
import contextlib
import functools
import http.client
import io
import itertools
import json
import ssl
import sys
import threading
import time
from array import array
from urllib.parse import urlsplit

now = time.monotonic_ns
READ_SIZE = 65536


class Truth:
    """What happened in this process, in arrays; written out once at the end."""

    def __init__(self):
        self.pauses = array("q")  # begin, end, CPU time, generation, collected, tid
        self.chunks = array("q")  # number of the stream, index, ns
        self.streams = []
        self.marks = []
        self.events = 0
        self.cpu = 0
        self.stamps = collections.defaultdict(now)
        self.stamp = functools.partial(max, key=functools.partial(next, map(self.stamps.__getitem__,
                                                                            itertools.count())))

    def callbacks(self):
        """What gc.callbacks has to hold, in this order.

        The clock is read right before and right after a collection by functions written in C: a line of Python
        may hand the interpreter lock to a thread that waits for it, and then the collection would seem to last
        until the lock comes back. A stamp is called with two arguments, for each of which ``max`` asks for a key,
        ``next`` for the next number, and the dictionary for the value that it misses: the time. So each start and
        each stop leaves four times, the first two before on_gc and the others behind it.
        """
        return [self.stamp, self.on_gc, self.stamp]

    def on_gc(self, phase, info):
        """Notes the rest, and at a stop the times of the collection's start and stop."""
        cpu, at = time.thread_time_ns(), 4 * self.events
        self.events += 1
        if phase == "start":
            self.cpu = cpu
            return
        begin, end = self.stamps[at - 1], self.stamps[at]
        for number in range(max(0, at - 8), at):
            self.stamps.pop(number, None)
        self.pauses.extend((begin, end, cpu - self.cpu, info["generation"], info["collected"],
                            threading.get_native_id()))

    def mark(self, what, **more):
        """Notes that something began now."""
        self.marks.append(dict({"type": "mark", "what": what, "ns": now()}, **more))

    def write(self, path):
        """Writes everything as JSON lines; "-" is standard output."""
        with open(path, "w", encoding="ascii") if path != "-" else contextlib.nullcontext(sys.stdout) as out:
            for mark in self.marks:
                out.write(json.dumps(mark) + "\n")
            for at in range(0, len(self.pauses), 6):
                begin, end, cpu, generation, collected, tid = self.pauses[at : at + 6]
                pause = {"type": "pause", "begin_ns": begin, "end_ns": end, "cpu_ns": cpu}
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

    def __init__(self, truth, connection, tag, behaviour):
        self.tag = tag
        self.truth = truth
        self.connection = connection
        self.on_chunk = behaviour.on_chunk
        self.on_request = behaviour.on_request
        self.number = len(truth.streams)
        self.log = truth.chunks
        self.index = 0
        self.tail = b""
        self.record = {"type": "stream", "stream": tag, "request_from_ns": now(), "request_ns": None}
        self.record.update(end_ns=None, chunks=0, comments=0, bytes=0)
        truth.streams.append(self)

    def sent(self, sock):
        """Notes that the request has been written to ``sock``."""
        self.record["request_ns"] = now()  # The constructor noted when the sending began.
        self.record["tid"] = threading.get_native_id()
        self.record["local"] = "%s:%d" % sock.getsockname()[:2]
        self.record["peer"] = "%s:%d" % sock.getpeername()[:2]
        self.on_request(self)

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

    def __init__(self, options, truth, behaviour):
        self.options = options
        self.truth = truth
        self.behaviour = behaviour
        self.url = urlsplit(options.url)
        self.tls = None
        if options.tls or self.url.scheme == "https":
            self.tls = ssl.create_default_context(cafile=options.cafile)

    def stream(self, connection, turn):
        """A new stream and the path to ask for: the URL's, with a tag of its own."""
        tag = "s%d.%d" % (connection, turn)
        query = self.url.query + "&" if self.url.query else ""
        path = "%s?%stag=%s" % (self.url.path or "/", query, tag)
        return Stream(self.truth, connection, tag, self.behaviour), path

    def read_blocking(self, connection):
        """Reads --keep-alive streams one after another on one http.client connection."""
        host, port, wait = self.url.hostname, self.url.port, self.options.timeout
        if self.tls:
            link = http.client.HTTPSConnection(host, port, timeout=wait, context=self.tls)
        else:
            link = http.client.HTTPConnection(host, port, timeout=wait)
        link.response_class = TimedResponse
        link.connect()
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
            time.sleep(connection * self.options.stagger_ms / 1e3)
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
        await asyncio.sleep(connection * self.options.stagger_ms / 1e3)
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

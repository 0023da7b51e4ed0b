#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An SSE origin whose timing is known: it says when it sent what.

Standard library only, Python 3.9 or later, HTTP/1.1 with keep-alive, plain or TLS. The first line on
standard output is ``{"port": N}``, once the socket listens; the program then runs until SIGTERM or SIGINT.

Its resources, by GET or POST, are ``/stream``, and those of three APIs: ``/v1/chat/completions``,
``/v1/responses`` and ``/v1/messages`` (shapes.py). tests/clients/origin_h2.py serves the same over HTTP/2.

The behaviour of one response comes from its query; what is missing there comes from the options:

==================  ==========================================================================
chunks=N            events in the response, without ``[DONE]``
interval_ms=F       chunk k is due at t0 + first_delay_ms + k * interval_ms; the schedule is absolute,
                    so a late send never moves the following ones
jitter_ms=F         each due time is moved by a repeatable pseudo-random 0..F
first_delay_ms=F    wait before the response begins
silence=I:MS,...    chunk I and all later ones are due MS later
burst=K             K events in one write, due when the last of them is
at_once=1           header and all events in one write
size=N              payload bytes of each event
framing=...         ``chunked``, ``length`` or ``close``
coding=...          ``gzip``, ``deflate``, ``br`` or ``zstd``, flushed at each write (codings.py)
comment_every=N     a comment in front of every N-th event, in the same write
comment_ms=F        while waiting, a comment of its own every F ms (not with framing=length)
cut=K:HOW           when chunk K is due nothing more is sent: ``close`` or ``reset`` the connection
done=0              leave out what stands behind the last chunk
named=1             the model is the tag, in /stream too
text=WORDS          text of each chunk, in place of ``size`` bytes
tag=NAME            name of the stream in the log
==================  ==========================================================================

With ``--log FILE`` every event leaves one line ``{"type":"send","stream":TAG,"index":K,"from_ns":S,"ns":T}``;
S and T are ``time.monotonic_ns()`` before the send and when it returned. ``"queued":BYTES`` is added where the
kernel did not take everything, so that T is not the time at which the bytes left. A line
``{"type":"request",...}`` with the time at which the request had been read and the number of its connection
precedes them.
"""

import argparse
import asyncio
import gc
import json
import random
import signal
import socket
import ssl
import struct
import sys
import time
from urllib.parse import parse_qsl, urlsplit

from codings import Coder
from shapes import BadRequest, shape_of

MAX_REQUEST = 16 * 1024 * 1024
COMMENT = b": keep-alive\n\n"


class Plan:
    """What one response sends, and when. Times are in seconds after the request."""

    def __init__(self, path, query, body, options):
        def pick(name, kind, default):
            try:
                return kind(query.get(name, default))
            except ValueError as error:
                raise BadRequest("%s: %s" % (name, error)) from error

        self.chunks = pick("chunks", int, options.chunks)
        self.interval = pick("interval_ms", float, options.interval_ms) / 1e3
        self.jitter = pick("jitter_ms", float, options.jitter) / 1e3
        self.first_delay = pick("first_delay_ms", float, options.first_delay_ms) / 1e3
        self.burst = max(1, pick("burst", int, 1))
        self.at_once = query.get("at_once") == "1"
        self.size = pick("size", int, options.size)
        self.framing = query.get("framing", "chunked")
        self.comment_every = pick("comment_every", int, 0)
        self.comment = pick("comment_ms", float, 0) / 1e3
        self.silences = parse_silences(query.get("silence", ""))
        self.tag = query.get("tag", "")
        self.text = query.get("text", "")
        self.named = query.get("named") == "1"
        self.has_ending = query.get("done") != "0"
        self.cut_at, self.cut_how = parse_cut(query.get("cut", ""))
        self.coding = query.get("coding", "")
        if self.framing not in ("chunked", "length", "close"):
            raise BadRequest("framing: chunked, length or close")
        if self.framing == "length":
            self.comment = 0.0
        if self.framing == "length" and self.coding:
            raise BadRequest("the length of an encoded response is not known")
        self.shape = shape_of(path, self, body)

    def groups(self):
        """Yields (due, first index, end index) of each write, due times never falling. Of a response that is
        cut the last ends before the cut, which is due when its chunk would be."""
        noise = random.Random("%s/%d" % (self.tag, self.chunks))
        shift, last = self.first_delay, 0.0
        due = []
        for index in range(self.chunks):
            shift += self.silences.get(index, 0.0)
            jitter = noise.random() * self.jitter if self.jitter else 0.0
            last = max(last, shift + index * self.interval + jitter)
            due.append(last)
        step = self.chunks if self.at_once else self.burst
        for first in range(0, self.chunks, max(1, step)):
            end = min(first + step, self.chunks)
            if self.cut_at is not None and self.cut_at < end:
                if first < self.cut_at:
                    yield due[self.cut_at - 1], first, self.cut_at
                yield due[self.cut_at], self.cut_at, self.cut_at
                return
            yield (self.first_delay if self.at_once else due[end - 1]), first, end

    def bytes_of(self, first, end):
        """The body bytes of the events [first, end), with what the API puts in front of the first chunk and
        behind the last."""
        parts = [self.shape.opening()] if first == 0 else []
        for index in range(first, end):
            if self.comment_every and index and index % self.comment_every == 0:
                parts.append(COMMENT)
            parts.append(self.shape.chunk(index))
        if end == self.chunks and self.has_ending:
            parts.append(self.shape.ending())
        return b"".join(parts)

    def header(self):
        """The response head."""
        framing = b"Transfer-Encoding: chunked\r\n"
        if self.framing == "close":
            framing = b"Connection: close\r\n"
        elif self.framing == "length":
            size = sum(len(self.bytes_of(i, i + 1)) for i in range(self.chunks)) or len(self.bytes_of(0, 0))
            framing = b"Content-Length: %d\r\n" % size
        if self.coding:
            framing += b"Content-Encoding: %s\r\n" % self.coding.encode()
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
            + framing
            + b"\r\n"
        )


def parse_cut(text):
    """``"60:reset"`` as (60, "reset"); (None, None) for none."""
    if not text:
        return None, None
    index, _, how = text.partition(":")
    if not index.isdigit() or how not in ("close", "reset", "goaway"):
        raise BadRequest("cut: index:close, index:reset, or index:goaway over HTTP/2")
    return int(index), how


def parse_silences(text):
    """``"5:600,9:300"`` as {5: 0.6, 9: 0.3}: seconds before the chunk of that index."""
    silences = {}
    for part in filter(None, text.split(",")):
        index, _, milliseconds = part.partition(":")
        try:
            silences[int(index)] = silences.get(int(index), 0.0) + float(milliseconds) / 1e3
        except ValueError as error:
            raise BadRequest("silence: index:ms,...") from error
    return silences


class Response:
    """One response in progress on a connection; times its own writes with loop.call_at."""

    def __init__(self, connection, plan):
        self.connection = connection
        self.plan = plan
        self.loop = connection.loop
        self.groups = plan.groups()
        self.next = next(self.groups, None)
        self.t0 = self.loop.time()
        self.started = False
        self.coder = Coder(plan.coding) if plan.coding else None
        self.timer = None
        self.log = connection.server.log
        self.name = json.dumps(plan.tag)
        self.wait()

    def wait(self):
        """Arms the timer for the next write, or for a comment where one is due before it."""
        due = self.t0 + (self.next[0] if self.next else self.plan.first_delay)
        now = self.loop.time()
        if self.plan.comment and due - now > self.plan.comment:
            self.timer = self.loop.call_at(now + self.plan.comment, self.send_comment)
        else:
            self.timer = self.loop.call_at(due, self.send)

    def frame(self, body, last=False):
        """Puts ``body`` into the response's framing, with the head in front if it is the first."""
        if self.coder is not None:
            body = self.coder.encode(body, last)
        if self.plan.framing == "chunked":
            body = b"%x\r\n%s\r\n" % (len(body), body)
        if not self.started:
            self.started = True
            body = self.plan.header() + body
        return body

    def send_comment(self):
        """Sends a comment and waits again."""
        self.connection.transport.write(self.frame(COMMENT))
        self.wait()

    def send(self):
        """Sends the group that is due, notes the time, and waits or ends the response."""
        transport = self.connection.transport
        if self.next is None:
            transport.write(self.frame(self.plan.bytes_of(0, 0), last=True))
            self.end()
            return
        _, first, end = self.next
        if first == end:
            self.timer = None
            self.connection.cut(self.plan.cut_how)
            return
        self.next = next(self.groups, None)
        data = self.frame(self.plan.bytes_of(first, end), last=self.next is None)
        if self.next is None and self.plan.framing == "chunked":
            data += b"0\r\n\r\n"
        begin = time.monotonic_ns()
        transport.write(data)
        if self.log is not None:
            sent = time.monotonic_ns()
            queued = transport.get_write_buffer_size()
            tail = ',"queued":%d}\n' % queued if queued else "}\n"
            line = '{"type":"send","stream":%s,"index":%d,"from_ns":%d,"ns":%d%s'
            self.log += [line % (self.name, index, begin, sent, tail) for index in range(first, end)]
        if self.next is None:
            self.end()
        else:
            self.wait()

    def end(self):
        """Hands the connection back."""
        self.timer = None
        self.connection.response_ended(self.plan.framing == "close")

    def cancel(self):
        """Stops sending: the connection is gone."""
        if self.timer is not None:
            self.timer.cancel()


class Connection(asyncio.Protocol):
    """HTTP/1.1 requests of one connection, one after another."""

    def __init__(self, server):
        self.server = server
        self.loop = server.loop
        self.transport = None
        self.number = None
        self.buffer = bytearray()
        self.response = None

    def connection_made(self, transport):
        """Turns Nagle off: one write is one segment, at once."""
        self.transport = transport
        self.number = self.server.count_connection()
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc):
        """Drops the response in progress."""
        if self.response is not None:
            self.response.cancel()
        self.response = self.transport = None

    def data_received(self, data):
        """Collects request bytes."""
        self.buffer += data
        if len(self.buffer) > MAX_REQUEST:
            self.transport.abort()
        elif self.response is None:
            self.take_request()

    def take_request(self):
        """Starts the response to the next complete request in the buffer, if there is one."""
        head_end = self.buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        lines = self.buffer[:head_end].decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        try:
            length = int(headers.get("content-length", "0"))
            if "transfer-encoding" in headers or length < 0:
                raise ValueError
        except ValueError:
            self.refuse("the request body needs a Content-Length")
            return
        if len(self.buffer) < head_end + 4 + length:
            return
        body = bytes(self.buffer[head_end + 4 : head_end + 4 + length])
        del self.buffer[: head_end + 4 + length]
        try:
            self.start(lines[0].split(" "), body)
        except BadRequest as error:
            self.refuse(str(error))

    def start(self, request, body):
        """Begins the response to a request line that was split at its spaces."""
        if len(request) != 3 or request[0] not in ("GET", "POST"):
            raise BadRequest("GET or POST only")
        url = urlsplit(request[1])
        self.response = Response(self, self.server.plan(url.path, url.query, body, self.number))

    def cut(self, how):
        """Breaks off in the middle of a response."""
        self.response = None
        break_off(self.transport, how)

    def response_ended(self, close):
        """Goes on with the next request, or closes."""
        self.response = None
        self.server.write_log()
        if close:
            self.transport.close()
        else:
            self.take_request()

    def refuse(self, why):
        """Answers 400 and closes."""
        body = why.encode() + b"\n"
        head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        self.transport.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()


def break_off(transport, how):
    """Closes a connection; with "reset" the peer gets a TCP reset, and what it has not read is lost."""
    if how == "reset":
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()
    else:
        transport.close()


class Origin:
    """The listening server, its options and its log."""

    protocol = Connection
    alpn = ()

    def __init__(self, options, loop):
        self.options = options
        self.loop = loop
        self.unnamed = 0
        self.connections = 0
        self.file = open(options.log, "w", encoding="ascii") if options.log else None
        self.log = [] if self.file else None

    def count_connection(self):
        """The number of a new connection."""
        self.connections += 1
        return self.connections

    def plan(self, path, query, body, connection):
        """The plan of the response to a request that has just been read; notes the request."""
        now = time.monotonic_ns()
        query = dict(parse_qsl(query))
        if not query.get("tag"):
            self.unnamed += 1
            query["tag"] = "stream-%d" % self.unnamed
        plan = Plan(path, query, body, self.options)
        if self.log is not None:
            line = '{"type":"request","stream":%s,"ns":%d,"connection":%d}\n'
            self.log.append(line % (json.dumps(plan.tag), now, connection))
        return plan

    def write_log(self, final=False):
        """Moves log lines to the file in large portions, so that a send seldom waits for the disk."""
        if self.file and self.log and (final or len(self.log) > 20000):
            self.file.write("".join(self.log))
            self.log.clear()
        if self.file and final:
            self.file.close()

    async def run(self):
        """Listens, prints the port, and serves until a signal."""
        context = None
        if self.options.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.options.tls)
            if self.alpn:
                context.set_alpn_protocols(self.alpn)
        listener = await self.loop.create_server(
            lambda: self.protocol(self), self.options.host, self.options.port, ssl=context, backlog=512
        )
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            self.loop.add_signal_handler(number, stop.set)
        print(json.dumps({"port": listener.sockets[0].getsockname()[1]}), flush=True)
        # The origin must not have pauses of its own.
        gc.collect()
        gc.freeze()
        gc.disable()
        await stop.wait()
        listener.close()
        self.write_log(final=True)


def serve(kind=Origin):
    """Reads the options and serves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    parser.add_argument("--log", metavar="FILE")
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--interval-ms", type=float, default=20.0)
    parser.add_argument("--jitter", type=float, default=0.0, metavar="MS")
    parser.add_argument("--first-delay-ms", type=float, default=0.0)
    parser.add_argument("--size", type=int, default=32, help="payload bytes of an event")
    options = parser.parse_args()

    async def run():
        await kind(options, asyncio.get_running_loop()).run()

    asyncio.run(run())
    return 0


if __name__ == "__main__":
    sys.exit(serve())

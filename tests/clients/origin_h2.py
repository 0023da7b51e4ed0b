#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lab's origin over HTTP/2 (python3-h2): resources, queries, schedule and log are those of tests/lab/origin.py.

Over TLS by ALPN, without it by prior knowledge. What differs:

* ``framing`` and ``comment_ms`` mean nothing here;
* ``cut=K:reset`` resets the stream, ``cut=K:close`` closes the connection with all of its streams, and
  ``cut=K:goaway`` says GOAWAY first;
* ``pad=N`` pads each DATA frame by N bytes (0 to 255).
"""
import asyncio
import collections
import socket
import sys
from urllib.parse import parse_qsl, urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

import origin
from shapes import BadRequest


class Response(origin.Response):
    """One response in progress; its bytes go to a stream in place of a connection."""

    def frame(self, body, last=False):
        """The body as it is. HEADERS go out of their own."""
        if self.coder is not None:
            body = self.coder.encode(body, last)
        if not self.started:
            self.started = True
            self.connection.begin(self.plan)
        return body


class Stream:
    """One stream of a connection. Stands for the connection and its transport towards a Response."""

    def __init__(self, connection, number, headers):
        self.connection = connection
        self.number = number
        self.headers = headers
        self.body = bytearray()
        self.waiting = collections.deque()  # what the flow control does not let out yet
        self.over = False
        self.response = None
        self.loop = connection.loop
        self.server = connection.server
        self.transport = self
        self.pad = None

    def asked(self):
        """The request is whole."""
        url = urlsplit(self.headers[":path"])
        query = dict(parse_qsl(url.query))
        self.pad = int(query["pad"]) if "pad" in query else None
        plan = self.server.plan(url.path, url.query, bytes(self.body), self.connection.number)
        plan.framing, plan.comment = "close", 0.0  # only the end of the stream ends the body
        self.response = Response(self, plan)

    def begin(self, plan):
        """Sends the response's HEADERS."""
        headers = [(":status", "200"), ("content-type", "text/event-stream"), ("cache-control", "no-cache")]
        if plan.coding:
            headers.append(("content-encoding", plan.coding))
        self.connection.h2.send_headers(self.number, headers)

    def write(self, data):
        """Queues body bytes, and sends what the windows allow."""
        if data:
            self.waiting.append(data)
        self.push()

    def get_write_buffer_size(self):
        """Bytes that have not left."""
        return sum(map(len, self.waiting)) + self.connection.transport.get_write_buffer_size()

    def push(self):
        """Sends what the windows of the stream and the connection allow."""
        link = self.connection.h2
        extra = 0 if self.pad is None else self.pad + 1
        while self.waiting:
            room = min(link.local_flow_control_window(self.number), link.max_outbound_frame_size) - extra
            if room <= 0:
                break
            data = self.waiting.popleft()
            if len(data) > room:
                self.waiting.appendleft(data[room:])
                data = data[:room]
            link.send_data(self.number, data, pad_length=self.pad)
        if self.over and not self.waiting:
            link.end_stream(self.number)
            self.connection.forget(self.number)
        self.connection.flush()

    def response_ended(self, _):
        """The last byte of the body has been queued."""
        self.response = None
        self.over = True
        self.push()
        self.server.write_log()

    def cut(self, how):
        """Breaks off in the middle of the response."""
        self.response = None
        if how == "reset":
            self.connection.h2.reset_stream(self.number, h2.errors.ErrorCodes.INTERNAL_ERROR)
            self.connection.forget(self.number)
            self.connection.flush()
        else:
            if how == "goaway":
                self.connection.h2.close_connection()
                self.connection.flush()
            self.connection.transport.close()

    def cancel(self):
        """The stream is gone."""
        if self.response is not None:
            self.response.cancel()
            self.response = None


class Connection(asyncio.Protocol):
    """The streams of one connection."""

    def __init__(self, server):
        self.server = server
        self.loop = server.loop
        self.transport = None
        self.number = None
        self.streams = {}
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))

    def connection_made(self, transport):
        self.transport = transport
        self.number = self.server.count_connection()
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc):
        for stream in self.streams.values():
            stream.cancel()
        self.streams.clear()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.transport.write(data)

    def forget(self, number):
        self.streams.pop(number, None)

    def data_received(self, data):
        try:
            for event in self.h2.receive_data(data):
                self.take(event)
        except h2.exceptions.ProtocolError:
            self.flush()
            self.transport.close()
            return
        self.flush()

    def take(self, event):
        """One event of the connection."""
        number = getattr(event, "stream_id", None)
        stream = self.streams.get(number)
        if isinstance(event, h2.events.RequestReceived):
            self.streams[number] = Stream(self, number, dict(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, number)
            if stream:
                stream.body += event.data
        elif isinstance(event, h2.events.StreamEnded) and stream:
            self.asked(stream)
        elif isinstance(event, h2.events.StreamReset) and stream:
            stream.cancel()
            self.forget(number)
        elif isinstance(event, h2.events.WindowUpdated):
            for waiting in list(self.streams.values()):
                if number in (0, waiting.number):
                    waiting.push()

    def asked(self, stream):
        try:
            stream.asked()
        except BadRequest as error:
            self.h2.send_headers(stream.number, [(":status", "400"), ("content-type", "text/plain")])
            self.h2.send_data(stream.number, str(error).encode(), end_stream=True)
            self.forget(stream.number)


class Origin(origin.Origin):
    """The listening server."""

    protocol = Connection
    alpn = ("h2",)


if __name__ == "__main__":
    sys.exit(origin.serve(Origin))

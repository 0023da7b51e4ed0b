# SPDX-License-Identifier: Apache-2.0
"""A server of event streams that knows its own truth. Standard library only, Python 3.8 or later.

    server    passes on messages of an engine: one line each, over a connection of its own for each stream
    gateway   passes on the events of another server, tests/lab/origin.py
    changing  the same, but writes the data in another way
    timer     has no input: it waits for its own clock (asyncio only)

each with http.server (--mode threads) or asyncio streams, plain or TLS. It answers

    GET /stream?tag=NAME&chunks=N&silence=I:MS,...

with N events. --scenario says what it does badly:

    guilty    gc.collect() between the input and the write of every 20th event
    innocent  a collection that begins 100 ms into each silence of the input, on the event loop or a thread of
              its own
    busy      computes for 200 ms between the input and the write of every 20th event
    plain     nothing

all of them only at the events of one client, whose names begin with s0.

The first line on standard output is {"pid": N, "port": N}. At the end of standard input it writes its log: pauses
and marks as tests/lab/client.py does, and for each event {"type": "chunk", "stream", "index", "input_ns", "from_ns",
"ns"}: its input was there (of a timer: was due), the write began, the line behind the write.
"""
import argparse
import asyncio
import gc
import http.client
import http.server
import json
import os
import socket
import ssl
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
sys.path.insert(0, LAB)
from behaviours import build_heap, empty_lists  # noqa: E402
from readers import AsyncBody, TimedResponse, Truth  # noqa: E402

now = time.monotonic_ns
EVERY = 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def framed(data):
    """One chunk of HTTP's chunked coding."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Answer:
    """One response: what was asked for, and what happens at each of its events."""

    def __init__(self, server, query):
        query = parse_qs(query)
        self.server = server
        self.tag = query["tag"][0]
        self.chunks = int(query["chunks"][0])
        self.query = "chunks=%d&interval_ms=%s&tag=%s" % (self.chunks, query["interval_ms"][0], self.tag)
        self.interval = float(query["interval_ms"][0]) / 1e3
        self.silences = {}
        if "silence" in query:
            self.query += "&silence=" + query["silence"][0]
            parts = (part.split(":") for part in query["silence"][0].split(","))
            self.silences = {int(index): float(ms) / 1e3 for index, ms in parts}
        self.index = 0

    def event(self, data, input_ns, write):
        """The input of the next event has come: writes it, in the way of the scenario."""
        acts = self.tag.startswith("s0.")
        if acts and self.index % EVERY == EVERY - 1:
            self.server.before_write()
        began = now()
        write(framed(data))
        ended = now()
        self.server.log.append((self.tag, self.index, input_ns, began, ended))
        self.index += 1
        if acts and self.index in self.silences:
            self.server.in_silence()

    def events(self, body, ns, write):
        """Part of a body of events, each in one piece, as the origin writes them."""
        for block in body.split(b"\n\n"):
            if not block:
                continue
            if block == b"data: [DONE]":
                write(framed(block + b"\n\n"))
            elif self.server.options.kind == "changing":
                self.event(block.replace(b'"i"', b'"number"') + b"\n\n", ns, write)
            else:
                self.event(block + b"\n\n", ns, write)


class Server:
    """What all kinds have in common."""

    def __init__(self, options):
        self.options = options
        self.truth = Truth()
        self.log = []
        self.loop = None
        self.tls = None
        if options.tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*options.tls)
        host, _, port = (options.source or ":").rpartition(":")
        self.source = (host, int(port or 0))

    def before_write(self):
        if self.options.scenario == "guilty":
            gc.collect()
        elif self.options.scenario == "busy":
            until = now() + 200_000_000
            while now() < until:
                pass

    def in_silence(self):
        if self.options.scenario != "innocent":
            return
        if self.loop:
            self.loop.call_later(0.1, gc.collect)
        else:
            threading.Timer(0.1, gc.collect).start()

    def write_log(self):
        with open(self.options.log, "w", encoding="ascii") as out:
            for tag, index, input_ns, began, ended in self.log:
                out.write(json.dumps({"type": "chunk", "stream": tag, "index": index, "input_ns": input_ns,
                                      "from_ns": began, "ns": ended}) + "\n")
        self.truth.write(self.options.log + ".truth")


# ---- Threads.

def handler_of(server):
    """The request handler class of http.server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer = Answer(server, urlsplit(self.path).query)
            if server.options.kind == "server":
                self.serve(answer)
            else:
                self.pass_on(answer)

        def begin(self):
            """The head is written when there is an answer, as gateways do."""
            self.wfile.write(HEAD)

        def serve(self, answer):
            with socket.create_connection(server.source) as link:
                link.sendall((answer.query + "\n").encode())
                self.begin()
                rest = b""
                while answer.index < answer.chunks:
                    rest += link.recv(65536)
                    ns = now()
                    lines = rest.split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        answer.event(b"data: " + line + b"\n\n", ns, self.wfile.write)
            self.wfile.write(framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")

        def pass_on(self, answer):
            link = http.client.HTTPConnection(*server.source)
            link.response_class = TimedResponse
            link.request("GET", "/stream?" + answer.query)
            response = link.getresponse()
            self.begin()
            while True:
                body = response.read1(65536)
                if not body:
                    break
                answer.events(body, response.raw.ns, self.wfile.write)
            link.close()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args):
            pass

    return Handler


class ThreadingServer(http.server.ThreadingHTTPServer):
    """TLS handshakes are made by the thread of the connection."""

    daemon_threads = True
    tls = None

    def finish_request(self, request, client_address):
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True)
        self.RequestHandlerClass(request, client_address, self)
        if self.tls:
            request.close()


def serve_by_threads(server, ready):
    listener = ThreadingServer(("localhost", 0), handler_of(server))
    listener.tls = server.tls
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    ready(listener.server_address[1])
    sys.stdin.read()
    listener.shutdown()


# ---- asyncio.

async def answer_async(server, answer, write):
    """Writes the events of one answer; `write` takes bytes at once."""
    if server.options.kind == "timer":
        write(HEAD)
        due = server.loop.time()
        for index in range(answer.chunks):
            due += answer.interval + answer.silences.get(index, 0)
            await asyncio.sleep(due - server.loop.time())
            answer.event(b'data: {"i":%d}\n\n' % index, int(due * 1e9), write)
        write(framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        return
    reader, writer = await asyncio.open_connection(*server.source)
    if server.options.kind != "server":
        writer.write(("GET /stream?%s HTTP/1.1\r\nHost: origin\r\n\r\n" % answer.query).encode())
        write(HEAD)
        await AsyncBody(reader).read(lambda body, ns: answer.events(body, ns, write))
        write(b"0\r\n\r\n")
    else:
        writer.write((answer.query + "\n").encode())
        write(HEAD)
        while answer.index < answer.chunks:
            line = await reader.readline()
            answer.event(b"data: " + line[:-1] + b"\n\n", now(), write)
        write(framed(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    writer.close()


async def serve_async(server, ready):
    server.loop = asyncio.get_running_loop()

    tasks = set()

    async def connected(reader, writer):
        tasks.add(asyncio.current_task())  # Up to 3.11 nobody else holds it, and we collect.
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                await answer_async(server, Answer(server, urlsplit(path).query), writer.write)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    listener = await asyncio.start_server(connected, "localhost", 0, ssl=server.tls)
    ready(listener.sockets[0].getsockname()[1])
    await server.loop.run_in_executor(None, sys.stdin.read)
    listener.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kind", choices=("server", "gateway", "changing", "timer"), required=True)
    parser.add_argument("--mode", choices=("threads", "asyncio"), required=True)
    parser.add_argument("--scenario", default="plain")
    parser.add_argument("--source", metavar="HOST:PORT")
    parser.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    gc.disable()
    server = Server(options)
    wanted = "0" if options.scenario in ("plain", "busy") else "auto"
    heap, took = build_heap(wanted, empty_lists, 500000, 170)

    def ready(port):
        server.truth.mark("go", heap=len(heap), collect_ms=round(took, 1))
        gc.callbacks.extend(server.truth.callbacks())
        print(json.dumps({"pid": os.getpid(), "port": port}), flush=True)

    if options.mode == "threads":
        serve_by_threads(server, ready)
    else:
        asyncio.run(serve_async(server, ready))
    gc.callbacks.clear()
    server.truth.mark("done")
    server.write_log()


if __name__ == "__main__":
    main()

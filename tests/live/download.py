# SPDX-License-Identifier: Apache-2.0
"""A download of 1 GiB over TLS beside event streams: hardly slowed, and not copied.

One process reads five streams and, again and again, the download, over connections that it keeps; once with blocking
calls and once on an event loop, where the program reads the ciphertext itself. gcause is attached to each second
download, so that two make a pair, in turn A B and B A. The quotient of the two times of a pair has to be below 1.03
at the median (--pairs 0 leaves that out), and of a whole download gcause may have copied less than 1 MiB, by the
payload in a raw capture, whose sum has to be what gcause says itself (-v). Every chunk of the streams has to be seen
meanwhile.

Needs root and a kernel with BTF.
"""
import argparse
import asyncio
import http.client
import http.server
import json
import math
import os
import re
import signal
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
STREAMS, RATE = 5, 20  # chunks a second of each
COPIED = 1 << 20  # bytes, fewer than which may be copied
SLOWED = 1.03
PIECE = 1 << 18  # bytes that the program asks for at once
CHUNKS_A_STREAM = 50
MODES = ("blocking", "asyncio")
RECORD_IO, IO_LAST = 3, 8  # bpf/events.h


def serve(folder, size):
    """Serves a download of so many bytes to everybody who asks, over TLS."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size))
            self.end_headers()
            piece = bytes(1 << 20)
            for _ in range(size >> 20):
                self.wfile.write(piece)

        def log_message(self, *args):
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    server.serve_forever()


class Target:
    """The target: reads streams until the end, and the download whenever standard input has a line; answers each
    with how long that took and the chunks that its streams have had by then."""

    def __init__(self, args):
        self.download, self.streams = (urllib.parse.urlsplit(url) for url in args.urls)
        self.context = ssl.create_default_context(cafile=args.cafile)
        self.chunks = 0
        self.lock = threading.Lock()

    def had(self, count):
        with self.lock:
            self.chunks += count

    def answer(self, begin, cpu):
        print(json.dumps({"ns": time.monotonic_ns() - begin, "cpu_ns": time.process_time_ns() - cpu}), flush=True)

    def path(self):
        return "%s?%s" % (self.streams.path, self.streams.query)

    def read_streams(self):
        link = http.client.HTTPSConnection(self.streams.hostname, self.streams.port, context=self.context)
        while True:
            link.request("GET", self.path())
            response = link.getresponse()
            for line in response:
                self.had(line.startswith(b"data: {"))

    def run_blocking(self):
        for _ in range(STREAMS):
            threading.Thread(target=self.read_streams, daemon=True).start()
        link = http.client.HTTPSConnection(self.download.hostname, self.download.port, context=self.context)
        for line in sys.stdin:
            if line == "chunks\n":
                print(json.dumps({"chunks": self.chunks}), flush=True)
                continue
            begin, cpu = time.monotonic_ns(), time.process_time_ns()
            link.request("GET", "/")
            response = link.getresponse()
            while response.read(PIECE):
                pass
            self.answer(begin, cpu)

    async def ask(self, where, path):
        """A connection that is kept: gives (reader, function that asks and reads the response's head)."""
        reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=self.context, limit=PIECE)

        async def ask():
            writer.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode())
            return await reader.readuntil(b"\r\n\r\n")

        return reader, ask

    async def read_stream(self):
        reader, ask = await self.ask(self.streams, self.path())
        while True:
            await ask()
            line = b""
            while line != b"0\r\n":
                line = await reader.readline()
                self.had(line.startswith(b"data: {"))
            await reader.readline()

    async def run_loop(self):
        tasks = [asyncio.ensure_future(self.read_stream()) for _ in range(STREAMS)]
        reader, ask = await self.ask(self.download, "/")
        loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                break
            if line == "chunks\n":
                print(json.dumps({"chunks": self.chunks}), flush=True)
                continue
            begin, cpu = time.monotonic_ns(), time.process_time_ns()
            left = int(re.search(rb"Content-Length: (\d+)", await ask()).group(1))
            while left:
                left -= len(await reader.read(PIECE))
            self.answer(begin, cpu)
        for task in tasks:
            task.cancel()

    def run(self, mode):
        print(json.dumps({"pid": os.getpid()}), flush=True)
        if mode == "blocking":
            self.run_blocking()
        else:
            asyncio.run(self.run_loop())


class Run:
    """The servers, the target, and gcause where it is wanted."""

    def __init__(self, args, mode, folder):
        self.args, self.folder = args, folder
        self.processes = []
        me = [sys.executable, os.path.abspath(__file__)]
        certificate = [os.path.join(folder, name) for name in ("cert.pem", "key.pem")]
        big = self.start(me + ["--serve", folder, "--size", str(args.size)])[1]["port"]
        origin = self.start([sys.executable, os.path.join(LAB, "origin.py"), "--tls", *certificate])[1]["port"]
        streams = "https://localhost:%d/stream?chunks=%d&interval_ms=%d" % (origin, CHUNKS_A_STREAM, 1000 // RATE)
        self.target, said = self.start(
            [args.python, os.path.abspath(__file__), "--target", mode, "--cafile", os.path.join(folder, "ca.pem"),
             "--urls", "https://localhost:%d/" % big, streams], stdin=subprocess.PIPE)
        self.pid = said["pid"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):  # first the target, which would miss its servers
            process.kill()
            process.wait()

    def start(self, command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.processes.append(process)
        return process, json.loads(process.stdout.readline())

    def say(self, word):
        self.target.stdin.write(word + "\n")
        self.target.stdin.flush()
        return json.loads(self.target.stdout.readline())

    def attach(self, *options):
        gcause = subprocess.Popen([self.args.gcause, "record", "-p", str(self.pid), "--chunks", "-v", *options],
                                  stderr=subprocess.PIPE, text=True)
        self.processes.append(gcause)
        line = gcause.stderr.readline()
        if not line.startswith("gcause: recording pid "):
            raise SystemExit("gcause: " + line + gcause.stderr.read())
        return gcause

    def detach(self, gcause):
        """Ends a recording; gives the bytes that it says it copied."""
        gcause.send_signal(signal.SIGINT)
        errors = gcause.communicate()[1]
        said = re.search(r"with (\d+) bytes that the target read or wrote", errors)
        if gcause.returncode or not said:
            raise SystemExit("gcause ended with %s: %s" % (gcause.returncode, errors))
        return int(said.group(1))

    def timed(self, with_gcause):
        """A download with gcause or without: {ns, cpu_ns}."""
        if not with_gcause:
            return self.say("download")
        gcause = self.attach("-o", os.path.join(self.folder, "timed.gcause"))
        took = self.say("download")
        self.detach(gcause)
        return took


def moved_and_copied(path):
    """Of each connection in a raw capture, TLS object or socket: [bytes that it moved, bytes of them that were copied].
    A capture has frames (recording/recording.h), of kind 0 those with the kernel's records, each at a multiple of 8,
    and of these the reads and writes (io_record in bpf/events.h) matter."""
    with open(path, "rb") as file:
        data = file.read()
    sums, at = {}, 8 + 4  # behind the magic word and the version
    while at < len(data):
        length, kind = struct.unpack_from("<IH", data, at)
        at += 6
        here, end = at, at + length
        while kind == 0 and here < end:
            size, record_kind, flags = struct.unpack_from("<IHH", data, here)
            if record_kind == RECORD_IO:
                connection, _, result, _, _, length = struct.unpack_from("<QQqIII", data, here + 32)
                sums.setdefault(connection, [0, 0])[1] += length
                if flags & IO_LAST:
                    sums[connection][0] += max(0, result)
            here += (size + 7) & ~7
        at = end
    return sums


def whole(args, mode, folder):
    """One whole download under gcause: what was copied. Gives (faults, text)."""
    lines, raw = os.path.join(folder, "whole.jsonl"), os.path.join(folder, "whole.gcraw")
    with Run(args, mode, folder) as run:
        gcause = run.attach("-o", lines, "--raw-capture", raw)
        before = run.say("chunks")["chunks"]
        took = run.say("download")["ns"]
        after = run.say("chunks")["chunks"]
        copied = run.detach(gcause)
    with open(lines, encoding="utf-8") as text:
        seen = [json.loads(line) for line in text]
    chunks = sum(1 for record in seen if record["type"] == "chunk")
    lost = [record for record in seen if record["type"] == "lost"]
    faults = []
    sums = moved_and_copied(raw).values()
    total, download = sum(each[1] for each in sums), [each[1] for each in sums if each[0] >= args.size]
    if not download:
        faults.append("the download was not seen")
    if sum(download) >= COPIED:
        faults.append("%d bytes of the download were copied" % sum(download))
    if copied != total:
        faults.append("-v says %d bytes, the raw capture holds %d" % (copied, total))
    if chunks < after - before - STREAMS or not after - before:
        faults.append("%d chunks seen, the target had %d to %d" % (chunks, before, after))
    if lost:
        faults.append("lost: %s" % lost)
    return faults, "%d MiB in %.1f s, %.3f MiB of it copied, and %.3f MiB for %d chunks beside it" % (
        args.size >> 20, took / 1e9, sum(download) / 2**20, (total - sum(download)) / 2**20, chunks)


def paired(args, mode, folder):
    """Downloads with and without gcause in turn. Gives (faults, text)."""
    walls, cpus = [], []
    with Run(args, mode, folder) as run:
        run.say("download")  # warms up
        for pair in range(args.pairs):
            took = {with_gcause: run.timed(with_gcause)
                    for with_gcause in ((True, False) if pair % 2 else (False, True))}
            walls.append(math.log(took[True]["ns"] / took[False]["ns"]))
            cpus.append(math.log(took[True]["cpu_ns"] / took[False]["cpu_ns"]))
    wall, cpu = (math.exp(statistics.median(each)) for each in (walls, cpus))
    faults = [] if wall < SLOWED else ["slowed by %.1f %%" % (100 * (wall - 1))]
    walls.sort()
    return faults, "%d pairs of %d MiB: time %+.1f %% (quartiles %+.1f to %+.1f), CPU time of the target %+.1f %%" % (
        args.pairs, args.size >> 20, 100 * (wall - 1), 100 * math.expm1(walls[len(walls) // 4]),
        100 * math.expm1(walls[-1 - len(walls) // 4]), 100 * (cpu - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--size", type=int, default=1 << 30, help="bytes of a download")
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--target", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--cafile", help=argparse.SUPPRESS)
    parser.add_argument("--urls", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve, args.size)
    if args.target:
        Target(args).run(args.target)
        return
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        for mode in args.mode or MODES:
            for what in [whole] + [paired] * (args.pairs > 0):
                faults, text = what(args, mode, folder)
                failed += bool(faults)
                print("%-4s %-9s %-7s %s" % ("FAIL" if faults else "ok", mode, what.__name__, text), flush=True)
                for fault in faults:
                    print("       " + fault, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

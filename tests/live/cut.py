# SPDX-License-Identifier: Apache-2.0
"""Streams that are cut off: how they end, when, and whether a collection ran at that moment.

A server sends three chunks of a chunked body and then closes the connection, or resets it, and says when it
did. The target collects behind the third chunk, so that the cut falls into the pause, or it waits in a read.
Plain and over TLS. Needs root and a kernel with BTF.
"""
import argparse
import gc
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DELAY = 0.1  # seconds from the third chunk to the cut
SLACK = 5_000_000  # ns between the server's call and the kernel's word of it, at most
OBJECTS = 4_000_000  # enough for a pause that is longer than DELAY
ENDS = {"close": "truncated", "reset": "reset"}


class Server:
    """Answers one connection, cuts it, and remembers when: (before the call, after it), monotonic ns."""

    def __init__(self, how, context):
        self.listener = socket.create_server(("localhost", 0))
        self.port = self.listener.getsockname()[1]
        self.how, self.context, self.cut = how, context, None
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        link = self.listener.accept()[0]
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context:
            link = self.context.wrap_socket(link, server_side=True)
        link.recv(4096)
        link.sendall(HEAD)
        for i in range(3):
            event = b'data: {"i":%d}\n\n' % i
            link.sendall(b"%x\r\n%s\r\n" % (len(event), event))
            time.sleep(0.02)
        time.sleep(DELAY)
        if self.how == "reset":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw = socket.socket(fileno=link.detach())
        before = time.monotonic_ns()
        raw.close()
        self.cut = before, time.monotonic_ns()


def target(url, cafile, collects):
    """Reads the stream when a line comes on standard input; prints its pid, then its pauses."""
    gc.disable()
    keep = [[] for _ in range(OBJECTS)]
    pauses = []
    gc.callbacks.append(lambda phase, info: pauses.append(time.monotonic_ns()))
    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    scheme, host = url.split("://")
    if scheme == "https":
        link = http.client.HTTPSConnection(host, context=ssl.create_default_context(cafile=cafile))
    else:
        link = http.client.HTTPConnection(host)
    link.request("GET", "/")
    response = link.getresponse()
    try:
        for _ in range(3):
            while response.readline() != b"\n":
                pass
        if collects:
            gc.collect()
        response.read()
    except (http.client.IncompleteRead, OSError):
        pass
    else:
        raise SystemExit("the stream was not cut")
    print(json.dumps({"pauses": [pauses[i:i + 2] for i in range(0, len(pauses), 2)], "kept": len(keep)}), flush=True)


def problems(lines, how, collects, cut, pauses):
    """What is wrong with what gcause says."""
    streams = [line for line in lines if line["type"] == "stream"]
    if len(streams) != 1:
        return ["%d streams" % len(streams)]
    stream, found = streams[0], []
    if stream["end"] != ENDS[how]:
        found.append("ends as %s, not %s" % (stream["end"], ENDS[how]))
    if stream["chunks"] != 3:
        found.append("%d chunks" % stream["chunks"])
    if not cut[0] <= (stream["cut_ns"] or 0) <= cut[1] + SLACK:
        found.append("cut at %s, not between %d and %d" % (stream["cut_ns"], *cut))
    named = [line for line in lines if line["type"] == "pause" and line["id"] == stream["cut_in_pause"]]
    if not collects:
        return found + (["names a pause"] if stream["cut_in_pause"] is not None else [])
    if not any(begin < cut[0] and cut[1] < end for begin, end in pauses):
        return found + ["the collection was too short for the test: %s, cut %s" % (pauses, cut)]
    if not named or not named[0]["begin_ns"] <= cut[0] <= named[0]["end_ns"]:
        found.append("names pause %s" % stream["cut_in_pause"])
    return found


def check(args, folder, tls, how, collects):
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
    server = Server(how, context)
    url = "%s://localhost:%d" % ("https" if tls else "http", server.port)
    command = [args.python, os.path.abspath(__file__), "--target", url, "--cafile", os.path.join(folder, "ca.pem")]
    client = subprocess.Popen(command + (["--collects"] if collects else []), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    pid = json.loads(client.stdout.readline())["pid"]
    path = os.path.join(folder, "out.jsonl")
    gcause = subprocess.Popen([args.gcause, "record", "-p", str(pid), "-o", path], stderr=subprocess.PIPE, text=True)
    gcause.stderr.readline()
    truth = json.loads(client.communicate("go\n")[0])
    gcause.communicate()
    server.thread.join()
    with open(path) as text:
        found = problems([json.loads(line) for line in text], how, collects, server.cut, truth["pauses"])
    if gcause.returncode != 0:
        found.append("gcause ended with status %d" % gcause.returncode)
    print("%-4s %-5s %-5s %s%s" % ("FAIL" if found else "ok", "tls" if tls else "plain", how,
                                   "in a collection" if collects else "in a silent wait",
                                   "".join("\n     " + line for line in found)))
    return not found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--cafile", help=argparse.SUPPRESS)
    parser.add_argument("--collects", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.target:
        target(args.target, args.cafile, args.collects)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        results = [check(args, folder, tls, how, collects)
                   for tls in (False, True) for how in ENDS for collects in (False, True)]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

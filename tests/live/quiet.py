# SPDX-License-Identifier: Apache-2.0
"""A download is not copied, and a stream on the same connection after it is complete.

The target reads 64 MiB, then an event stream of 20 chunks, over one connection, plain and over TLS; or it is the
server of them, plain also with sendfile. What gcause copied is measured by the size of its raw capture. Needs root
and a kernel with BTF.
"""
import argparse
import http.client
import http.server
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading

LAB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab")
SIZE = 64 << 20
CHUNKS = 20


class Handler(http.server.BaseHTTPRequestHandler):
    """/big and /file are SIZE bytes, /stream is an event stream."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        events = b"".join(b'data: {"i":%d}\n\n' % i for i in range(CHUNKS)) + b"data: [DONE]\n\n"
        big = self.path != "/stream"
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if big else "text/event-stream")
        self.send_header("Content-Length", str(SIZE if big else len(events)))
        self.end_headers()
        if not big:
            self.wfile.write(events)
            return
        if self.path == "/file":
            with tempfile.TemporaryFile() as file:
                file.truncate(SIZE)
                self.connection.sendfile(file)
            return
        for _ in range(SIZE >> 20):
            self.wfile.write(bytes(1 << 20))

    def log_message(self, *args):
        pass


def make_server(folder):
    """Plain, or with the certificate in the folder."""
    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    if folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def read_all(port, folder, first):
    """The large resource, then the stream, over one connection."""
    if folder:
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        link = http.client.HTTPSConnection("localhost", port, context=context)
    else:
        link = http.client.HTTPConnection("localhost", port)
    for path in (first, "/stream"):
        link.request("GET", path)
        response = link.getresponse()
        while response.read(1 << 18):
            pass
    link.close()


def target(role, port, folder):
    """Reads both resources when a line comes on standard input, or serves them until it ends."""
    if role == "server":
        server = make_server(folder)
        print(json.dumps({"pid": os.getpid(), "port": server.server_address[1]}), flush=True)
        sys.stdin.read()
        return
    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    read_all(port, folder, "/big")


def check(args, role, tls, first, folder):
    certificates = folder if tls else ""
    port = make_server(certificates).server_address[1] if role == "client" else 0
    process = subprocess.Popen([args.python, os.path.abspath(__file__), "--target", role, "--port", str(port),
                                "--folder", certificates],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    about = json.loads(process.stdout.readline())
    lines, raw = os.path.join(folder, "out.jsonl"), os.path.join(folder, "out.gcraw")
    gcause = subprocess.Popen([args.gcause, "record", "-p", str(about["pid"]), "--chunks", "-o", lines,
                               "--raw-capture", raw], stderr=subprocess.PIPE, text=True)
    gcause.stderr.readline()
    if role == "server":
        read_all(about["port"], certificates, first)
    process.communicate("go\n")
    gcause.communicate()
    with open(lines) as text:
        seen = [json.loads(line) for line in text]
    chunks = sum(1 for record in seen if record["type"] == "chunk")
    lost = sum(record["count"] for record in seen if record["type"] == "lost")
    direction = "read" if role == "client" else "write"
    right = all(record["direction"] == direction for record in seen if record["type"] == "stream")
    copied = os.path.getsize(raw)
    ok = chunks == CHUNKS and right and lost == 0 and copied < 1 << 21 and gcause.returncode == 0
    print("%-4s %s %-5s %-5s: %d of %d chunks, %.1f MiB crossed from the kernel for %d MiB, %d records lost"
          % ("ok" if ok else "FAIL", role, "tls" if tls else "plain", first, chunks, CHUNKS, copied / 2**20,
             SIZE >> 20, lost))
    return ok


CASES = [("client", False, "/big"), ("client", True, "/big"), ("server", False, "/big"), ("server", True, "/big"),
         ("server", False, "/file")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--target", choices=("client", "server"), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.target:
        target(args.target, args.port, args.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        results = [check(args, *case, folder) for case in CASES]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

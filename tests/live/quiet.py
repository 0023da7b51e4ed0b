# SPDX-License-Identifier: Apache-2.0
"""A download is not copied, and a stream on the same connection after it is complete.

The target reads 64 MiB, then an event stream of 20 chunks, over one connection, plain and over TLS. What
gcause copied is measured by the size of its raw capture. Needs root and a kernel with BTF.
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
    """/big is SIZE bytes, /stream is an event stream."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        events = b"".join(b'data: {"i":%d}\n\n' % i for i in range(CHUNKS)) + b"data: [DONE]\n\n"
        big = self.path == "/big"
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if big else "text/event-stream")
        self.send_header("Content-Length", str(SIZE if big else len(events)))
        self.end_headers()
        if not big:
            self.wfile.write(events)
            return
        for _ in range(SIZE >> 20):
            self.wfile.write(bytes(1 << 20))

    def log_message(self, *args):
        pass


def target(url, cafile):
    """Reads both resources when a line comes on standard input."""
    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    scheme, host = url.split("://")
    if scheme == "https":
        link = http.client.HTTPSConnection(host, context=ssl.create_default_context(cafile=cafile))
    else:
        link = http.client.HTTPConnection(host)
    for path in ("/big", "/stream"):
        link.request("GET", path)
        response = link.getresponse()
        while response.read(1 << 18):
            pass
    link.close()


def check(args, tls, folder):
    server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "%s://localhost:%d" % ("https" if tls else "http", server.server_address[1])
    client = subprocess.Popen([args.python, os.path.abspath(__file__), "--target", url, "--cafile",
                               os.path.join(folder, "ca.pem")],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = json.loads(client.stdout.readline())["pid"]
    lines, raw = os.path.join(folder, "out.jsonl"), os.path.join(folder, "out.gcraw")
    gcause = subprocess.Popen([args.gcause, "record", "-p", str(pid), "--chunks", "-o", lines,
                               "--raw-capture", raw], stderr=subprocess.PIPE, text=True)
    gcause.stderr.readline()
    client.communicate("go\n")
    gcause.communicate()
    server.shutdown()
    with open(lines) as text:
        chunks = sum(1 for line in text if json.loads(line)["type"] == "chunk")
    copied = os.path.getsize(raw)
    ok = chunks == CHUNKS and copied < 1 << 21 and gcause.returncode == 0
    print("%-4s %s: %d of %d chunks, %.1f MiB crossed from the kernel for %d MiB read"
          % ("ok" if ok else "FAIL", "tls" if tls else "plain", chunks, CHUNKS, copied / 2**20, SIZE >> 20))
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--cafile", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.target:
        target(args.target, args.cafile)
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        results = [check(args, tls, folder) for tls in (False, True)]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

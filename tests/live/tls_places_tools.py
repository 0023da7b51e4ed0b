# SPDX-License-Identifier: Apache-2.0
"""What tls_places.py is made of: servers of event streams, a target, and a recording of it."""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from urllib.parse import parse_qsl, urlsplit

from attach_tools import Broken, check, LIMIT, of_type

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
TARGET = os.path.join(HERE, "tls_places_target.py")


class Origin:
    """Serves event streams over TLS and plain, one thread a connection: /stream?n=EVENTS&ms=BETWEEN&wait=BEFORE.
    Each event is a write, and a TLS record, of its own. Connections end without a close_notify."""

    def __init__(self, certificates):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(os.path.join(certificates, "cert.pem"),
                                     os.path.join(certificates, "key.pem"))
        self.listeners = {}
        for scheme in ("http", "https"):
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            self.listeners[scheme] = listener
            threading.Thread(target=self.accept, args=(listener, scheme), daemon=True).start()

    def url(self, scheme="https", **query):
        port = self.listeners[scheme].getsockname()[1]
        return "%s://127.0.0.1:%d/stream?%s" % (scheme, port, "&".join("%s=%s" % q for q in query.items()))

    def accept(self, listener, scheme):
        while True:
            try:
                link = listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link, scheme), daemon=True).start()

    def serve(self, link, scheme):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if scheme == "https":
                link = self.context.wrap_socket(link, server_side=True)
            self.answer(link)
        except OSError:
            pass
        finally:
            link.close()

    @staticmethod
    def answer(link):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = link.recv(65536)
            if not piece:
                return
            head += piece
        query = dict(parse_qsl(urlsplit(head.split()[1].decode()).query))
        link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        due = time.monotonic() + float(query.get("wait", 0)) / 1e3
        for number in range(int(query["n"])):
            time.sleep(max(0.0, due - time.monotonic()))
            due += float(query["ms"]) / 1e3
            event = b'data: {"i":%d,"p":"%s"}\n\n' % (number, b"x" * (number % 5))
            link.sendall(b"%x\r\n%s\r\n" % (len(event), event))
        link.sendall(b"0\r\n\r\n")

    def close(self):
        for listener in self.listeners.values():
            listener.close()


class Proxy:
    """An HTTP proxy that knows CONNECT alone: what a program says behind it goes through as it is."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.tunnels = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                link = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        head = b""
        while b"\r\n\r\n" not in head:
            head += link.recv(65536)
        method, place = head.split()[:2]
        if method != b"CONNECT":
            link.close()
            return
        self.tunnels += 1
        host, port = place.decode().split(":")
        far = socket.create_connection((host, int(port)))
        for end in (link, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self.carry, args=(link, far), daemon=True).start()
        self.carry(far, link)

    @staticmethod
    def carry(source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
        except OSError:
            pass
        try:
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


class Target:
    """tls_places_target.py under an interpreter, in the root file system `root` if that is given."""

    def __init__(self, python, root=None, share=None, env=None):
        command = [python, TARGET]
        if root:
            shutil.copy(TARGET, share)
            command = ["unshare", "--mount", "--propagation", "private", os.path.join(TOP, "scripts/lib/enter"),
                       root, share, python, "/mnt/" + os.path.basename(TARGET)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        line = self.process.stdout.readline()
        check(line, "the target did not start: " + " ".join(command))
        self.pid, self.version = self.process.pid, json.loads(line)["version"]

    def send(self, do, **words):
        self.process.stdin.write(json.dumps(dict(words, do=do)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        check(line, "the target does not answer any more: exit code %s", self.process.poll())
        return json.loads(line)

    def do(self, do, **words):
        self.send(do, **words)
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Recording:
    """One recording of a target, told afterwards by `gcause report`: so both are tested."""

    def __init__(self, gcause, pid, folder, *options):
        self.gcause, self.pid, self.path = gcause, pid, os.path.join(folder, "run-%d.gcause" % time.monotonic_ns())
        self.process = subprocess.Popen([gcause, "record", "-p", str(pid), "-o", self.path, *options],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if line != "gcause: recording pid %d\n" % pid:
            self.process.wait(LIMIT)
            raise Broken("gcause did not start: " + line + self.process.stderr.read())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()

    def stop(self):
        if self.process.poll() is None:
            time.sleep(0.2)  # what the target did last is on its way
            self.process.send_signal(signal.SIGINT)
        told = self.process.stderr.read()
        check(self.process.wait(LIMIT) == 0, "gcause ended with %s: %s", self.process.returncode, told)
        self.objects = [json.loads(line) for line in self.report("-f", "jsonl", "--chunks").splitlines()]
        lost = of_type(self.objects, "lost")
        check(not lost, "records were lost: %r", lost)
        return self.objects

    def report(self, *options):
        return subprocess.run([self.gcause, "report", self.path, *options], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

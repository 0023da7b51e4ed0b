# SPDX-License-Identifier: Apache-2.0
"""What places.py, rights.py and seccomp.py are made with: targets in odd places, and gcause on them."""
import glob
import http.server
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIMIT = 60  # seconds after which something counts as hung
CHUNKS = 5

# A target that does what standard input says, one word a line, and answers each with a line. It can
# fork: a worker does what is left of its own line and ends when its pipe is closed.
PROGRAM = r"""
import ctypes, gc, http.client, os, struct, sys, time
gc.disable()
keep = [[] for _ in range(30000)]

def collect(count):
    for _ in range(int(count)):
        gc.collect()

def stream(url, cafile=None):
    scheme, rest = url.split("://")
    if scheme == "https":
        import ssl
        link = http.client.HTTPSConnection(rest, context=ssl.create_default_context(cafile=cafile))
    else:
        link = http.client.HTTPConnection(rest)
    link.request("GET", "/")
    response = link.getresponse()
    while response.read(4096):
        pass
    link.close()

def seccomp(mode="kill"):
    # load the number of the call; return probes (335, 336) are killed for, all else is allowed
    libc = ctypes.CDLL(None, use_errno=True)
    rules = [(0x20, 0, 0, 0), (0x15, 1, 0, 335), (0x15, 0, 1, 336), (0x06, 0, 0, 0x80000000),
             (0x06, 0, 0, 0x7fff0000)]
    code = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    buffer = ctypes.create_string_buffer(code, len(code))
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    program = Program(len(rules), ctypes.addressof(buffer))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0

workers = {}

def fork(name):
    order, reading = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(order[1])
        with os.fdopen(order[0]) as lines, os.fdopen(reading[1], "w", buffering=1) as answer:
            for line in lines:
                obey(line.split())
                answer.write("did\n")
        os._exit(0)
    os.close(order[0])
    os.close(reading[1])
    workers[name] = (pid, os.fdopen(order[1], "w", buffering=1), os.fdopen(reading[0]))
    return pid

def worker(name, *words):
    workers[name][1].write(" ".join(words) + "\n")
    assert workers[name][2].readline() == "did\n"

def kill(name):
    os.kill(workers[name][0], 9)
    os.waitpid(workers.pop(name)[0], 0)

def unlink(path):
    os.unlink(path)

def obey(words):
    return {"collect": collect, "stream": stream, "seccomp": seccomp, "fork": fork, "worker": worker,
            "kill": kill, "unlink": unlink, "sleep": lambda s: time.sleep(float(s)),
            "tls": lambda: __import__("ssl")}[words[0]](*words[1:])

if __name__ == "__main__":
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        print("did", obey(line.split()), flush=True)
"""


class Skip(Exception):
    """The host lacks what the row needs."""


class Broken(Exception):
    """The row does not hold."""


def check(condition, why, *values):
    if not condition:
        raise Broken(why % values if values else why)


class Target:
    """A Python process that is told over a pipe what to do. `command` ends with the interpreter; what it
    is started by may stay in front of it, so `pid` is found by what it says of itself."""

    def __init__(self, command, **kwargs):
        self.process = subprocess.Popen(list(command) + ["-c", PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, **kwargs)
        words = self.process.stdout.readline().split()
        if not words or words[0] != "ready":
            raise Broken("the target did not start: " + " ".join(command))
        self.own_pid = int(words[1])
        self.pid = last_descendant(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in (self.pid, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        check(line.startswith("did"), "the target does not answer any more: exit code %s",
              self.process.poll())
        return line.split()[1]

    def do(self, *words):
        """Sends a line and waits for its answer."""
        self.send(*words)
        return self.answer()


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as text:
            return [int(word) for word in text.read().split()]
    except OSError:
        return []


def last_descendant(pid):
    """The process behind those that only started it."""
    while children(pid):
        pid = children(pid)[0]
    return pid


class Gcause:
    """A recording of one process as JSON lines. `prefix` is what gcause is started by."""

    def __init__(self, gcause, pid, *options, prefix=(), **kwargs):
        self.process = subprocess.Popen([*prefix, gcause, "record", "-p", str(pid), "-f", "jsonl", *options],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **kwargs)
        self.objects, self.lines, self.code = [], [], None
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        first = self.process.stderr.readline()
        if not re.match(r"gcause: recording pid %s$" % pid, first.rstrip("\n")):
            self.wait()
            raise Broken("gcause did not start (%s): %s" % (self.code, first + "".join(self.lines)))

    def _read(self):
        self.objects = [json.loads(line) for line in self.process.stdout]

    def wait(self):
        self.lines = self.process.stderr.readlines()
        self.reader.join(LIMIT)
        self.code = self.process.wait(LIMIT)

    def stop(self):
        """Ends the recording and gives its objects."""
        if self.process.poll() is None:
            # What stands between us and gcause does not hand signals on.
            os.kill(last_descendant(self.process.pid), signal.SIGINT)
        self.wait()
        check(self.code == 0, "gcause ended with %s: %s", self.code, "".join(self.lines))
        return self.objects

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.kill(last_descendant(self.process.pid), signal.SIGKILL)
            self.process.kill()
            self.wait()


def of_type(objects, kind):
    return [o for o in objects if o["type"] == kind]


def full_pauses(objects):
    """{pid: number of full collections}. Where the generation is not known, all are counted."""
    counts = {}
    for pause in of_type(objects, "pause"):
        if pause["kind"] == "gc" and pause["generation"] in (2, None):
            counts[pause["pid"]] = counts.get(pause["pid"], 0) + 1
    return counts


def method_of(objects):
    return of_type(objects, "process")[0]["collector"]["method"]


def probes_in(pid):
    """Bytes of the code of a process that differ from its files: breakpoints that probes left there."""
    differing = 0
    with open("/proc/%d/maps" % pid) as lines:
        maps = [line.split(None, 5) for line in lines]
    with open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for words in maps:
            if "x" not in words[1] or words[4] == "0" or not words[-1].startswith("/"):
                continue
            begin, end = (int(word, 16) for word in words[0].split("-"))
            with open("/proc/%d/map_files/%x-%x" % (pid, begin, end), "rb") as file:
                file.seek(int(words[2], 16))
                code = file.read(end - begin)
            memory.seek(begin)
            seen = memory.read(len(code))
            if seen != code:
                differing += sum(1 for a, b in zip(seen, code) if a != b)
    return differing


class Overlay:
    """A root file system of its own over `lower`, shared with others; ends when unmounted."""

    def __init__(self, folder, name, lower):
        self.base, self.root = os.path.join(folder, name), os.path.join(folder, name, "root")
        os.makedirs(self.root)
        subprocess.run(["mount", "-t", "tmpfs", "none", self.base], check=True)
        for part in ("root", "upper", "work"):
            os.mkdir(os.path.join(self.base, part))
        options = "lowerdir=%s,upperdir=%s/upper,workdir=%s/work" % (lower, self.base, self.base)
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, self.root], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for path in (self.root, self.base):
            if os.path.ismount(path):
                subprocess.run(["umount", "-l", path], check=True)

    def command(self, python):
        """Starts a Python as process 1 of namespaces of its own, with this root."""
        script = "mount -t proc none %s/proc && exec chroot %s %s \"$@\"" % (
            self.root, self.root, shlex.quote(python))
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]


def image():
    """A root file system for containers and the Python in it: one that scripts/interpreters made."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.environ.get("GCAUSE_CACHE") or os.path.join(home, "gcause")
    for python in sorted(glob.glob(os.path.join(cache, "*/usr/bin/python3"))):
        root = os.path.dirname(os.path.dirname(os.path.dirname(python)))
        real = os.path.join(os.path.dirname(python), os.readlink(python)) if os.path.islink(python) else python
        return root, real
    sys.exit("there is no root file system with a python3 in %s: scripts/interpreters makes one" % cache)


class Origin:
    """Serves one event stream of CHUNKS chunks to everybody who asks."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for number in range(CHUNKS):
                self.wfile.write(b'data: {"i":%d}\n\n' % number)
                time.sleep(0.02)
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def log_message(self, *args):
            pass

    def __init__(self, certificates=None):
        self.server = http.server.ThreadingHTTPServer(("localhost", 0), self.Handler)
        scheme = "http"
        if certificates:
            import ssl
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(certificates, "cert.pem"),
                                    os.path.join(certificates, "key.pem"))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = "%s://localhost:%d" % (scheme, self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def run_rows(rows, only=None):
    """Runs (name, function) in a folder of its own each, prints a line for each and exits with 0 only if
    all hold and none was skipped for a reason of gcause. A function gives the text to show."""
    passed = failed = skipped = 0
    for name, function in rows:
        if only and only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            try:
                text, word = function(folder), "ok"
                passed += 1
            except Skip as reason:
                text, word = str(reason), "SKIP"
                skipped += 1
            except Broken as reason:
                text, word = str(reason), "FAIL"
                failed += 1
        print("%-4s %-46s %s" % (word, name, text or ""), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(0 if passed and not failed else 1)

# SPDX-License-Identifier: Apache-2.0
"""Where the programs of the matrix run: a root file system with Debian's packages, and gcause outside of it."""
import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
SCRIPTS = os.path.join(os.path.dirname(TESTS), "scripts")
sys.path.insert(0, os.path.join(TESTS, "live"))

from attach_tools import Broken, Skip, check  # noqa: E402

Load = collections.namedtuple("Load", "streams chunks part")
Load.__doc__ = """Streams that come to their end, chunks of each, and chunks of one that does not."""
FULL, SHORT = Load(20, 200, 60), Load(10, 60, 20)
AT_ONCE = 5  # streams

OF_THE_LAB = ("origin.py", "shapes.py", "codings.py")  # what the programs here use of it
LIMIT = 120  # seconds after which a program counts as hung
PROBE = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n) is None))"


def make_root(suite):
    """The root file system of a suite, made where it is missing."""
    made = subprocess.run([os.path.join(SCRIPTS, "lib", "client-root"), suite], check=False, text=True,
                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if made.returncode:
        raise SystemExit("without its packages there is no test: scripts/lib/client-root says why")
    return made.stdout.strip()


class Program:
    """A program in the root file system; its first line is a JSON object. It has the PID of what was started, as
    every step on the way is an exec."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **options)
        line = self.process.stdout.readline()
        self.said = json.loads(line) if line.startswith("{") else None
        if self.said is None:
            self.process.kill()
            raise Broken("%s did not start: %s" % (self.name(), self.last_words()))
        self.pid = self.process.pid

    def name(self):
        return " ".join(word for word in self.process.args if word.startswith("/mnt/"))

    def last_words(self):
        return (self.process.communicate()[1].strip().splitlines() or ["(nothing)"])[-1]

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def wait(self):
        """Waits until it ends by itself, and as it should."""
        try:
            _, errors = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Broken(self.name() + " hangs") from None
        check(self.process.returncode == 0, "%s ended with %s: %s", self.name(), self.process.returncode,
              errors[-400:])

    def terminate(self):
        """Ends a server, which writes its log then."""
        self.process.send_signal(signal.SIGTERM)
        self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(ValueError):  # its pipes may be closed
            self.process.communicate()


class Place:
    """A root file system, and a folder that is /mnt in it, with all programs of the matrix and the certificates."""

    def __init__(self, root, folder):
        self.root = root
        self.share = os.path.join(folder, "share")
        os.mkdir(self.share)
        programs = [os.path.join(HERE, name) for name in os.listdir(HERE) if name.endswith(".py")]
        for path in programs + [os.path.join(TESTS, "lab", name) for name in OF_THE_LAB]:
            shutil.copy(path, self.share)
        subprocess.run([os.path.join(TESTS, "lab", "certs.sh"), self.share], check=True, stdout=subprocess.DEVNULL)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_all()

    def end_all(self):
        """Nothing outlives its row."""
        while self.running:
            self.running.pop().kill()

    def inside(self, *words):
        """The command that runs another one in the root file system."""
        return ["unshare", "--mount", "--propagation", "private", os.path.join(SCRIPTS, "lib", "enter"), self.root,
                self.share, "SSL_CERT_FILE=/mnt/ca.pem", *words]

    def missing(self, modules):
        """Those of the modules that the root file system lacks."""
        told = subprocess.run(self.inside("python3", "-I", "-c", PROBE, *modules), check=True, text=True,
                              stdout=subprocess.PIPE)
        return told.stdout.split()

    def start(self, program, *options, priority=()):
        started = Program([*priority, *self.inside("python3", "/mnt/" + program, *map(str, options))])
        self.running.append(started)
        return started

    def origin(self, tls, http2=False, log="origin.jsonl"):
        """Starts an origin at real-time priority; gives it, its port is `said["port"]`."""
        options = ["--log", "/mnt/" + log]
        if tls:
            options += ["--tls", "/mnt/cert.pem", "/mnt/key.pem"]
        return self.start("origin_h2.py" if http2 else "origin.py", *options, priority=("chrt", "--fifo", "10"))

    def write(self, name, value):
        """Puts a JSON file into the share; gives the path in the root file system."""
        with open(os.path.join(self.share, name), "w", encoding="utf-8") as out:
            json.dump(value, out)
        return "/mnt/" + name

    def records(self, name):
        """The lines of a program's log."""
        with open(os.path.join(self.share, name), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def run_table(rows, only):
    """Runs (name, function) as long as `only` chooses them; a function gives (faults, text). Prints a line for each,
    and what does not hold; exits with 0 only if some row ran, and all that ran hold."""
    passed = failed = skipped = 0
    for name, function in rows:
        if only and not any(each in name for each in only):
            continue
        try:
            faults, text = function()
            lines, word = list(faults.lines()), "FAIL" if faults else "ok"
        except Skip as reason:
            lines, word, text = [], "SKIP", str(reason)
        except Broken as reason:
            lines, word, text = [], "FAIL", str(reason)
        passed, failed, skipped = passed + (word == "ok"), failed + (word == "FAIL"), skipped + (word == "SKIP")
        print("%-4s %-40s %s" % (word, name, text), flush=True)
        for line in lines:
            print("       " + line, flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(0 if passed and not failed else 1)

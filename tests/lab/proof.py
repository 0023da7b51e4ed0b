#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The proof: what gcause says the gaps would have been without the collector, against a run without it.

    proof.py --gcause build/gcause [--repeats N] [--program openai|asyncio|threads] [--root FOLDER]

Three programs, each with the same schedule of chunks in every run: the openai SDK over TLS (the demo's client, in
the root file system that scripts/demo makes), an asyncio client with 50 streams, and a client with a thread for
each of 16 streams. Run A collects automatically; gcause says its but-for p99 and p50. Run B is the same program
under gc.disable(); gcause says the p99 and p50 of its gaps. Each figure of A has to agree with that of the B behind
it within 10 % or 3 ms, in every repeat; and the collector must have hurt in A, or there was nothing to explain.

B runs before the first A and after each, and the columns "noise" say how far two neighbouring B are apart: what
the machine does to one and the same program. The rule does not depend on them.

Exits with 0 only if all agree. Needs root and a kernel with BTF. Origins run at real-time priority and targets at a
high one, so that other work on the machine disturbs less.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts")
LIMIT = 180  # seconds after which a run counts as hung
MS = 1e6
SHARE, FLOOR = 0.10, 3 * MS  # how far two figures may be apart, whichever is more

Figures = collections.namedtuple("Figures", "gap_p50 gap_p99 but_for_p50 but_for_p99 gaps pauses longest")


class Broken(Exception):
    """A run could not be made, or is not complete."""


def hurry(command):
    """The command at a high priority, as the machine may have other work."""
    return ["nice", "-n", "-15", *command]


class Processes:
    """What one run starts; nothing outlives it."""

    def __init__(self):
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def start(self, command, **options):
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)
        self.running.append(process)
        return process

    def origin(self, options):
        """Starts an origin; gives its port. A new one for each run, as it counts the streams that it names."""
        command = ["chrt", "--fifo", "10", sys.executable, os.path.join(HERE, "origin.py"), *options]
        line = self.start(command).stdout.readline()
        if not line:
            raise Broken("the origin did not start")
        return json.loads(line)["port"]

    def gcause(self, binary, pid, output):
        command = hurry([binary, "record", "-p", str(pid), "-f", "jsonl", "-o", output])
        process = self.start(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        line = process.stderr.readline()
        if not line.startswith("gcause: recording pid "):
            raise Broken("gcause: " + line + process.stderr.read())
        return process


def end(process, what):
    """Waits for a process that ends by itself."""
    try:
        code = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        raise Broken(what + " did not end") from None
    if code:
        raise Broken("%s ended with %d" % (what, code))


def figures(path):
    """What the summary says of the one process in it."""
    with open(path, encoding="utf-8") as lines:
        summary = [json.loads(line) for line in lines][-1]
    if summary["type"] != "summary" or summary["lost"] or not summary["gap"]["count"]:
        raise Broken("lost records, or no gaps: %s" % json.dumps(summary))
    gap, but_for = summary["gap"], summary["but_for"]
    return Figures(gap["p50_ns"], gap["p99_ns"], but_for["p50_ns"], but_for["p99_ns"], gap["count"],
                   summary["pauses"]["count"], summary["pauses"]["max_ns"] or 0)


class LabClient:
    """tests/lab/client.py: reads, and makes cyclic objects beside a heap that lives long."""

    def __init__(self, mode, streams, query, alloc):
        self.mode, self.streams, self.query, self.alloc = mode, streams, query, alloc
        self.heap = "auto"

    def prepare(self, args, folder):
        self.args, self.folder = args, folder

    def run(self, collects):
        with Processes() as processes:
            port = processes.origin([])
            command = [self.args.python, os.path.join(HERE, "client.py"), "--mode", self.mode, "--streams",
                       str(self.streams), "--scenario", "auto", "--alloc", str(self.alloc), "--heap",
                       str(self.heap), "--url", "http://127.0.0.1:%d/stream?%s" % (port, self.query)]
            client = processes.start(hurry(command + ([] if collects else ["--no-gc"])), stdin=subprocess.PIPE)
            ready = json.loads(client.stdout.readline() or "{}")
            if "pid" not in ready:
                raise Broken("the client did not start")
            self.heap = ready["heap"]  # every run has that of the first
            output = os.path.join(self.folder, "run.jsonl")
            gcause = processes.gcause(self.args.gcause, ready["pid"], output)
            client.stdin.write("go\n")
            client.stdin.flush()
            end(client, "the client")
            end(gcause, "gcause")
            return figures(output)


class OpenaiClient:
    """tests/lab/openai_client.py in a root file system of its own, over TLS."""

    def __init__(self, answers):
        self.answers = answers

    def prepare(self, args, folder):
        self.args, self.folder = args, folder
        if not os.path.isdir(args.root):
            raise Broken("there is no %s: scripts/demo makes it, GCAUSE_CACHE says where" % args.root)
        subprocess.run([os.path.join(HERE, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        self.share = os.path.join(folder, "share")
        os.mkdir(self.share)
        for path in (os.path.join(HERE, "openai_client.py"), os.path.join(SCRIPTS, "demo.d", "calibrate.py"),
                     os.path.join(folder, "ca.pem")):
            shutil.copy(path, self.share)
        said = subprocess.check_output(self.inside(1, "calibrate.py"), text=True)
        self.passages = said.split()[0]

    def inside(self, port, program, *options):
        """The command that runs a program of the share in the root file system."""
        return hurry(["unshare", "--mount", "--propagation", "private", os.path.join(SCRIPTS, "lib", "enter"),
                      self.args.root, self.share, "SSL_CERT_FILE=/mnt/ca.pem",
                      "OPENAI_BASE_URL=https://127.0.0.1:%d/v1" % port, "python3", "/mnt/" + program, *options])

    def run(self, collects):
        with Processes() as processes:
            certificate = [os.path.join(self.folder, name) for name in ("cert.pem", "key.pem")]
            port = processes.origin(["--tls", *certificate, "--chunks", "160", "--interval-ms", "45", "--jitter",
                                     "5", "--first-delay-ms", "150", "--size", "10"])
            client = processes.start(self.inside(port, "openai_client.py", "--gc", "default" if collects else "off",
                                                 "--passages", self.passages, "--answers", str(self.answers)),
                                     stdin=subprocess.PIPE)
            if not re.match(r"ready \d+\n", client.stdout.readline()):
                raise Broken("the client did not start")
            output = os.path.join(self.folder, "run.jsonl")
            # Every step into the root file system is an exec, so the PID is that of what was started.
            gcause = processes.gcause(self.args.gcause, client.pid, output)
            client.stdin.write("go\n")
            client.stdin.flush()
            if not client.stdout.readline().startswith("done "):
                raise Broken("the client failed")
            # What its exit collects is not part of the streaming.
            gcause.send_signal(signal.SIGTERM)
            end(gcause, "gcause")
            client.stdin.write("bye\n")
            client.stdin.close()
            client.stdin = None
            end(client, "the client")
            return figures(output)


PROGRAMS = {
    "openai": OpenaiClient(answers=2),
    "asyncio": LabClient("asyncio", 50, "chunks=160&interval_ms=80&jitter_ms=20", alloc=60),
    "threads": LabClient("threads", 16, "chunks=250&interval_ms=50&jitter_ms=20", alloc=100),
}


def tolerance(value):
    return max(SHARE * value, FLOOR)


def agree(a, b):
    return abs(a - b) <= tolerance(b)


HEAD = ("program", "run", "gaps", "pauses", "longest", "gap p99", "but-for p99", "gc off p99", "off by", "noise",
        "but-for p50", "gc off p50", "off by", "noise", "")
ROW = "%-8s %4s %6s %7s %8s %8s %12s %11s %7s %6s %12s %11s %7s %6s  %s"


def compare(name, number, collected, without, before):
    """Prints a row, and says whether it holds."""
    faults = []
    if not agree(collected.but_for_p99, without.gap_p99):
        faults.append("p99")
    if not agree(collected.but_for_p50, without.gap_p50):
        faults.append("p50")
    if collected.gap_p99 - without.gap_p99 <= 2 * tolerance(without.gap_p99):
        faults.append("the collector did not hurt")

    def ms(value):
        return "%.1f" % (value / MS)

    print(ROW % (name, number, collected.gaps, collected.pauses, ms(collected.longest), ms(collected.gap_p99),
                 ms(collected.but_for_p99), ms(without.gap_p99), ms(collected.but_for_p99 - without.gap_p99),
                 ms(without.gap_p99 - before.gap_p99), ms(collected.but_for_p50), ms(without.gap_p50),
                 ms(collected.but_for_p50 - without.gap_p50), ms(without.gap_p50 - before.gap_p50),
                 "FAIL: " + ", ".join(faults) if faults else "ok"), flush=True)
    return not faults


def prove(name, program, args):
    """All repeats of one program."""
    with tempfile.TemporaryDirectory() as folder:
        program.prepare(args, folder)
        held, noisy = 0, 0
        before = program.run(collects=False)
        for number in range(1, args.repeats + 1):
            collected = program.run(collects=True)
            without = program.run(collects=False)
            held += compare(name, number, collected, without, before)
            noisy += not (agree(without.gap_p99, before.gap_p99) and agree(without.gap_p50, before.gap_p50))
            before = without
    print("%-8s %d of %d agree; of the runs without the collector, %d of %d differ from the one before by more "
          "than the rule allows" % (name, held, args.repeats, noisy, args.repeats), flush=True)
    return held == args.repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    cache = os.environ.get("GCAUSE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gcause")
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter of the lab client")
    parser.add_argument("--root", default=os.path.join(cache, "debian13-openai"))
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print("times in ms; a figure may be off by %d %% or %g ms" % (100 * SHARE, FLOOR / MS))
    print(ROW % HEAD)
    results = []
    for name, program in PROGRAMS.items():
        if args.program and name not in args.program:
            continue
        try:
            results.append(prove(name, program, args))
        except Broken as reason:
            print("%-8s FAIL: %s" % (name, reason), flush=True)
            results.append(False)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

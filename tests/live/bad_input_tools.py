# SPDX-License-Identifier: Apache-2.0
"""What the rows of bad_input.py are made with: a target, a gcause, and what to expect of it."""
import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import threading
import time

NOBODY = 65534
PR_CAPBSET_DROP = 24  # linux/prctl.h
RECORDING = re.compile(r"gcause: recording pid \d+$")
ENDED_BEFORE = re.compile(r"gcause: process \d+ ended before every probe was active$")
LIMIT = 20  # seconds after which a run of gcause counts as hung

# A target that does what standard input says, one word a line, and answers each with a line.
TARGET = r"""
import gc, os, sys, time
gc.disable()
keep = [[] for _ in range(30000)]
print("ready", flush=True)
for line in sys.stdin:
    word, _, value = line.strip().partition(" ")
    if word == "collect":
        gc.collect()
    elif word == "exit":
        time.sleep(float(value or 0))
        os._exit(0)
    print("did", word, flush=True)
"""


class Skip(Exception):
    """The host lacks what the row needs."""


class Broken(Exception):
    """The row does not hold."""


class Target:
    """A Python process that is told over a pipe what to do."""

    def __init__(self, command=None, **kwargs):
        self.process = subprocess.Popen((command or [sys.executable]) + ["-c", TARGET],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        **kwargs)
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            raise Skip("the target did not start: " + " ".join(command or [sys.executable]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        """Sends a line and waits for its answer."""
        self.send(line)
        if self.process.stdout.readline() != "did %s\n" % line.split()[0]:
            raise Broken("the target does not answer any more: exit code %s" % self.process.poll())

    def reap_when_ended(self):
        """As a shell would: no zombie stays behind."""
        thread = threading.Thread(target=self.process.wait)
        thread.start()
        return thread


class Run:
    """What one run of gcause left: its exit code and both of its outputs."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out.decode(errors="replace")
        self.lines = err.decode(errors="replace").splitlines()


def run(command, seconds=LIMIT, **kwargs):
    """Runs a command to its end; one that does not end is killed and breaks the row."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, **kwargs)
    return end_of(process, seconds)


def end_of(process, seconds=LIMIT):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise Broken("did not end within %d s; standard error: %r" % (seconds, err.decode()))
    return Run(process.returncode, out, err)


def drop(*capabilities):
    """For preexec_fn: takes capabilities out of the bounding set, so that exec loses them."""
    def before_exec():
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in capabilities:
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
                os._exit(126)
    return before_exec


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def check(condition, why):
    if not condition:
        raise Broken(why)


def expect_failure(result, code, *patterns, announced=False):
    """Exactly two lines on standard error, and each pattern in one of them. `announced`: probes were
    active by then, so the line that says so comes first."""
    lines = result.lines
    if announced:
        check(lines and RECORDING.match(lines[0]), "not announced: %r" % lines)
        lines = lines[1:]
    check(result.code == code, "exit code %s instead of %d: %r" % (result.code, code, lines))
    check(len(lines) == 2, "%d lines on standard error instead of 2: %r" % (len(lines), lines))
    check(lines[0].startswith("gcause: ") and lines[0][8:].strip(), "bad first line: " + lines[0])
    check(lines[1].startswith("  hint: ") and lines[1][8:].strip(), "bad second line: " + lines[1])
    for pattern in patterns:
        check(re.search(pattern, "\n".join(lines)), "nothing like /%s/ in %r" % (pattern, lines))


def json_lines(text):
    """The lines as objects; every one has to be whole."""
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise Broken("output with a broken line: %s" % error)


def expect_complete(text, pauses):
    """A whole JSON output: from the session to a summary that counts at least so many pauses."""
    objects = json_lines(text)
    check(objects and objects[0]["type"] == "session", "no session line first")
    check(objects[-1]["type"] == "summary", "no summary line last: " + objects[-1]["type"])
    full = [o for o in objects if o["type"] == "pause" and o["generation"] in (2, None)]
    check(len(full) >= pauses, "%d pauses in the output instead of %d" % (len(full), pauses))
    check(objects[-1]["pauses"]["count"] >= pauses, "the summary counts fewer pauses")


class Recording:
    """A gcause that has said that it records."""

    def __init__(self, bench, target, *options):
        self.process = subprocess.Popen(
            [bench.gcause, "record", "-p", str(target.pid), *options], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.first = self.process.stderr.readline()
        if not RECORDING.match(self.first.decode().rstrip("\n")):
            rest = end_of(self.process)
            raise Broken("did not start: %r" % ([self.first.decode()] + rest.lines))

    def end(self, number=None, seconds=LIMIT):
        if number is not None:
            self.process.send_signal(number)
        result = end_of(self.process, seconds)
        result.lines.insert(0, self.first.decode().rstrip("\n"))
        return result


def wait_until_started(process):
    """Until gcause has taken its signals, which it does first: then the linker is done with it."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and process.poll() is None:
        for path in glob.glob("/proc/%d/fd/*" % process.pid):
            try:
                if "signalfd" in os.readlink(path):
                    return
            except OSError:
                pass
        time.sleep(0.001)

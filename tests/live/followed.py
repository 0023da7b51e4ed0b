# SPDX-License-Identifier: Apache-2.0
"""A target program and the gcause that records it, for the tests that compare the two.

The target says "ready" on its standard output, waits for a line on its standard input, works, says "done" and
waits for another line, after which it may tell what it saw and ends.
"""
import json
import subprocess
import threading

LIMIT = 120  # seconds after which a target and its gcause count as hung, and are killed


class Broken(Exception):
    """The target or gcause did not do what the test needs before it can compare anything."""


class Followed:
    """One target, from its start to its end. Use it as a context: nothing of it outlives that."""

    def __init__(self, launch, program, *arguments, limit=LIMIT):
        self.gcause = None
        self.output = None
        self.target = subprocess.Popen(launch.command(program, *arguments), env=launch.environment, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.target.pid
        self.watchdog = threading.Timer(limit, self.kill)
        self.watchdog.start()
        try:
            self.expect("ready")
        except Broken:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        for process in (self.gcause, self.target):
            if process:
                process.wait()
                for pipe in (process.stdout, process.stderr):
                    if pipe:
                        pipe.close()

    def kill(self):
        self.watchdog.cancel()
        for process in (self.gcause, self.target):
            if process:
                process.kill()

    def expect(self, word):
        line = self.target.stdout.readline()
        if line.strip() != word:
            self.target.kill()
            _, err = self.target.communicate()
            raise Broken("the target said %r instead of %s: %s" % (line, word, " ".join(err.split())[-300:]))

    def tell(self, word):
        try:
            self.target.stdin.write(word + "\n")
            self.target.stdin.flush()
        except BrokenPipeError:
            raise Broken("the target is gone: exit code %s" % self.target.wait()) from None

    def record(self, gcause, output, *options):
        """Starts gcause; returns once its probes are active."""
        self.output = output
        self.gcause = subprocess.Popen([gcause, "record", "-p", str(self.pid), "-o", output, *options],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.gcause.stderr.readline()
        if line != "gcause: recording pid %d\n" % self.pid:
            raise Broken("gcause: " + " ".join((line + self.gcause.stderr.read()).split()))

    def end_recording(self, ask=True):
        """Waits for gcause to end. Where it is not asked to, the target's end ends it."""
        if ask:
            self.gcause.terminate()
        _, said = self.gcause.communicate(timeout=LIMIT)
        if self.gcause.returncode:
            raise Broken("gcause ended with %d: %s" % (self.gcause.returncode, " ".join(said.split())))

    def seen(self):
        """What gcause wrote, as a list of objects."""
        with open(self.output, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def end_target(self):
        """Tells the target to end; returns what was left of its output, and its standard error."""
        out, err = self.target.communicate("end\n")
        if self.target.returncode:
            raise Broken("the target ended with %s" % self.target.returncode)
        return out, err


def method(seen):
    """The way to the collector that gcause took, in its own word."""
    return next((record["collector"]["method"] for record in seen if record["type"] == "process"), "none")


def lost(seen):
    return sum(record["count"] for record in seen if record["type"] == "lost")


def pauses(seen, kind="gc"):
    return [record for record in seen if record["type"] == "pause" and record["kind"] == kind]

# SPDX-License-Identifier: Apache-2.0
"""The line that started a pause is the right one, on every minor version of CPython.

A target starts collections by hand and by allocating, from many kinds of functions and lines, and notes for each
the frame that the interpreter itself names in gc.callbacks. Every pause of at least a millisecond has to name that
file, line and function, all of at least 100; shorter ones name nothing.

With --stress COUNT the trigger of every pause is read, however short, while the target makes COUNT collections
from frames that come and go, in two threads: its output has to be what it is without gcause, and every collection
is either seen or counted as lost.

Exits with 0 only if all holds. Needs root and a kernel with BTF.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import followed
import forms

TRIES = 100
THRESHOLD = 1_000_000  # ns: the default of gcause record --trigger


class Row:
    """What one interpreter's run says, and what does not hold of it."""

    def __init__(self):
        self.faults, self.said = [], ""

    def expect(self, holds, text, *values):
        if not holds:
            self.faults.append(text % values)


def compare(row, truth, seen):
    pauses = followed.pauses(seen)
    row.expect(followed.lost(seen) == 0, "%d records lost", followed.lost(seen))
    row.expect(len(truth) == len(pauses), "%d collections, %d seen", len(truth), len(pauses))
    judged = right = 0
    for (file, line, function, generation), pause in zip(truth, pauses):
        expected = None
        if pause["duration_ns"] >= THRESHOLD:
            expected = {"file": file, "line": line, "function": function}
            judged += 1
            right += pause["trigger"] == expected
        row.expect(pause["trigger"] == expected, "generation %d, %d ns, from %s seen as %s", generation,
                   pause["duration_ns"], expected, pause["trigger"])
    row.expect(judged >= TRIES, "only %d pauses are long enough", judged)
    row.said = "%s: %d of %d right, %d shorter ones" % (followed.method(seen), right, judged,
                                                        len(pauses) - judged)


def check_lines(gcause, interpreter, row):
    with tempfile.TemporaryDirectory() as folder:
        with followed.Followed(forms.Launch(interpreter, "as-is", folder), "trigger_target.py") as run:
            run.record(gcause, os.path.join(folder, "gcause.jsonl"))
            run.tell("go")
            run.expect("done")
            run.end_recording()
            truth = [json.loads(line) for line in run.end_target()[0].splitlines()]
            compare(row, truth, run.seen())


def stressed(folder, interpreter, count, gcause=None):
    """What the target wrote, and the time that it took; recorded where gcause is given."""
    launch = forms.Launch(interpreter, "as-is", folder)
    limit = followed.LIMIT + count / 1000  # a millisecond for each is ample
    with followed.Followed(launch, "trigger_target.py", "--stress", str(count), limit=limit) as run:
        if gcause:
            run.record(gcause, os.path.join(folder, "stress.gcause"), "--trigger", "0.001us")
        start = time.monotonic()
        run.tell("go")
        run.expect("done")
        took = time.monotonic() - start
        if gcause:
            run.end_recording()
        return run.end_target(), took


def summary(gcause, recording):
    """The summary of a recording, and how many of its pauses name their trigger."""
    triggers, last = 0, None
    command = [gcause, "report", recording, "-f", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as report:
        for line in report.stdout:
            triggers += '"trigger":{' in line
            last = line
    if report.returncode:
        raise followed.Broken("gcause report ended with %d" % report.returncode)
    return json.loads(last), triggers


def check_stress(gcause, interpreter, row, count):
    with tempfile.TemporaryDirectory() as folder:
        plain, without = stressed(folder, interpreter, count)
        recorded, took = stressed(folder, interpreter, count, gcause)
        told, triggers = summary(gcause, os.path.join(folder, "stress.gcause"))
    row.expect(len(plain[0].strip()) == 64 and plain == recorded, "the output is %r, but %r while recorded",
               plain, recorded)
    seen, lost = told["pauses"]["count"], told["lost"]
    row.expect(seen + lost >= count, "%d pauses seen and %d records lost of %d collections", seen, lost, count)
    row.expect(triggers >= 0.99 * seen, "only %d of %d pauses name a trigger", triggers, seen)
    row.said = "%d pauses, %d with a trigger, %d records lost, %.1f s (%.1f s without gcause); same output" % (
        seen, triggers, lost, took, without)


def one_per_minor(interpreters):
    """The first interpreter of each minor version."""
    first = {}
    for interpreter in interpreters:
        first.setdefault(interpreter.version.rsplit(".", 1)[0], interpreter)
    return list(first.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--interpreter", action="append", help="a name of scripts/interpreters; repeatable")
    parser.add_argument("--stress", type=int, metavar="COUNT", help="so many collections, on each minor version")
    args = parser.parse_args()
    interpreters = forms.chosen(args.interpreter)
    good = 0
    if args.stress:
        interpreters = one_per_minor(interpreters)
    for interpreter in interpreters:
        row = Row()
        try:
            if args.stress:
                check_stress(args.gcause, interpreter, row, args.stress)
            else:
                check_lines(args.gcause, interpreter, row)
        except followed.Broken as fault:
            row.faults.append(str(fault))
        good += not row.faults
        print("%-4s %-13s %-8s %s" % ("FAIL" if row.faults else "ok", interpreter.name, interpreter.version,
                                      row.said))
        for fault in row.faults[:5]:
            print("       " + fault)
        sys.stdout.flush()
    print("%d hold, %d do not" % (good, len(interpreters) - good))
    sys.exit(0 if good and good == len(interpreters) else 1)


if __name__ == "__main__":
    main()

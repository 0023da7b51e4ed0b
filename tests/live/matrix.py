# SPDX-License-Identifier: Apache-2.0
"""Every interpreter in every form of its build: what gcause sees of each collection is what the program saw.

A row is one interpreter in one form (see forms.py), which makes 10 manual collections of each generation and
1,000 automatic ones. Compared in order with what gc.callbacks told the program: count, generation, collected,
uncollectable and reason, all exactly. In rows "exit" the program also ends while it is recorded: the collections
that this makes, as the interpreter's own gc.DEBUG_STATS counts them, are seen as full ones with reason shutdown.

The collector's settings as gcause read them, at first and at last, are those that the program read: switched on or
not, thresholds, and the number of frozen objects exactly, the counts but for what was allocated between.

The program's clocks are read at the end of its "start" callback and at the begin of its "stop" callback. Up to
3.12 the callbacks lie around what gcause times, so each collection that gcause saw has to lie between the two
clocks. From 3.13 on they lie inside of the function, so the two clocks have to lie in what gcause saw, or around
it where it uses the USDT probes, which lie further inside. Between a clock of the program and one of gcause are
some microseconds, and now and then the machine takes a time out in them: durations agree within 5 % or 50 us for
95 of 100 collections (the first one apart, for which the kernel sets up what probes need), in one of three tries.

Exits with 0 only if all rows hold. Needs root and a kernel with BTF.
"""
import argparse
import collections
import json
import os
import sys
import tempfile
import time

import followed
import forms

ATTEMPTS = 3
ALLOCATED = 100  # objects between the program's look at the counts and gcause's
CLOCK = 2_000  # ns that two readings of one clock on two processors may be apart
EXIT = "exit"
BANNER = "gc: collecting generation"


class Row:
    """One interpreter in one form, and what does not hold of it."""

    def __init__(self, interpreter, form):
        self.interpreter, self.form = interpreter, form
        self.method, self.count, self.at_exit, self.worst, self.attempts = "none", 0, 0, 0, 0
        self.faults, self.late, self.nested = [], [], collections.Counter()

    def too_late(self):
        return 20 * len(self.late) > self.count

    def holds(self, gcause):
        while self.attempts < ATTEMPTS:
            self.attempts += 1
            self.faults, self.late, self.nested = [], [], collections.Counter()
            self.worst = 0
            try:
                self.compare(*self.run(gcause))
            except followed.Broken as fault:
                self.faults.append(str(fault))
            if self.faults or not self.too_late():
                break
        return not self.faults and not self.too_late()

    def run(self, gcause):
        with tempfile.TemporaryDirectory() as folder:
            ends = self.form == EXIT
            launch = forms.Launch(self.interpreter, "as-is" if ends else self.form, folder)
            with followed.Followed(launch, "collections_target.py", *(["--exit"] if ends else [])) as run:
                run.record(gcause, os.path.join(folder, "gcause.jsonl"))
                run.tell("go")
                run.expect("done")
                if not ends:
                    run.end_recording()
                out, err = run.end_target()
                if ends:
                    run.end_recording(ask=False)
                return out, run.seen(), err.count(BANNER)

    def compare(self, out, seen, at_exit):
        self.method = followed.method(seen)
        settings, *mine = [json.loads(line) for line in out.splitlines()]
        self.compare_settings(settings, seen)
        theirs = followed.pauses(seen)
        self.count, self.at_exit = len(mine), at_exit
        self.expect(followed.lost(seen) == 0, "%d records lost", followed.lost(seen))
        self.expect(len(mine) + at_exit == len(theirs), "%d collections and %d at exit, %d seen", len(mine),
                    at_exit, len(theirs))
        for number, (true, found) in enumerate(zip(mine, theirs)):
            true["reason"] = "manual" if true["manual"] else "automatic"
            self.compare_one(number, true, found)
        inside, outside = self.nested["inside"], self.nested["outside"]
        self.expect(self.count in ((inside,) if self.callbacks_around() else (inside, outside)),
                    "%d of %d collections seen inside of the program's clocks, %d around them", inside, self.count,
                    outside)
        for found in theirs[len(mine):]:
            self.expect((found["generation"], found["reason"]) == (2, "shutdown"), "at exit: %s", found)

    def compare_settings(self, mine, seen):
        theirs = [record["gc"] for record in seen if record["type"] == "process"]
        theirs += [record for record in seen if record["type"] == "settings"]
        # A program's end sets them anew.
        told = (theirs[0],) if self.form == EXIT else (theirs[0], theirs[-1])
        for true, found in zip(mine, told):
            same = found and all(true[name] == found[name] for name in ("enabled", "thresholds", "frozen"))
            near = found and max(abs(a - b) for a, b in zip(true["counts"], found["counts"])) <= ALLOCATED
            self.expect(same and near, "settings %s seen as %s", true, found)

    def compare_one(self, number, true, found):
        for field in ("generation", "collected", "uncollectable", "reason"):
            self.expect(true[field] == found[field], "collection %d: %s %s seen as %s", number, field,
                        true[field], found[field])
        if found["begin_ns"] >= true["begin_ns"] - CLOCK and found["end_ns"] <= true["end_ns"] + CLOCK:
            self.nested["inside"] += 1
        if found["begin_ns"] <= true["begin_ns"] + CLOCK and found["end_ns"] >= true["end_ns"] - CLOCK:
            self.nested["outside"] += 1
        took = true["end_ns"] - true["begin_ns"]
        off = abs(took - found["duration_ns"])
        if number > 0:
            self.worst = max(self.worst, off)
            if off > max(took // 20, 50_000):
                self.late.append("collection %d: %d ns seen as %d" % (number, took, found["duration_ns"]))

    def callbacks_around(self):
        return tuple(map(int, self.interpreter.version.split(".")[:2])) < (3, 13)

    def expect(self, holds, text, *values):
        if not holds:
            self.faults.append(text % values)

    def show(self, ok, seconds):
        print("%-4s %-13s %-8s %-16s %-9s %4d collections%-9s %3d durations off, one by %7.1f us  %4.1f s%s"
              % ("ok" if ok else "FAIL", self.interpreter.name, self.interpreter.version, self.form, self.method,
                 self.count, " and %d" % self.at_exit if self.at_exit else "", len(self.late), self.worst / 1e3,
                 seconds, "  try %d" % self.attempts if self.attempts > 1 else ""))
        faults = self.faults + (self.late if self.too_late() else [])
        for fault in faults[:3]:
            print("       " + fault)
        if len(faults) > 3:
            print("       and %d more" % (len(faults) - 3))
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--interpreter", action="append", help="a name of scripts/interpreters; repeatable")
    parser.add_argument("--form", action="append", choices=[*forms.FORMS, EXIT], help="repeatable")
    args = parser.parse_args()
    results = []
    for interpreter in forms.chosen(args.interpreter):
        for form in args.form or (*forms.FORMS, EXIT):
            row, start = Row(interpreter, form), time.monotonic()
            results.append(row.holds(args.gcause))
            row.show(results[-1], time.monotonic() - start)
    print("%d rows hold, %d do not" % (results.count(True), results.count(False)))
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()

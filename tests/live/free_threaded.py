# SPDX-License-Identifier: Apache-2.0
"""A CPython 3.13 without the interpreter lock: collections, and the times in which they stopped the world.

With its symbols, and stripped: then collections are seen all the same, but the functions that stop the world are
not found, so nothing is said of them. Every collection that gc.callbacks told the program is seen, in order, with its
generation, collected, uncollectable, reason and thread; the program's clocks lie inside of it, as its callbacks
do. Each has stopped the world twice, inside of the collection and one after the other. sys._current_frames() stops
the world, too: each call is seen as one pause of the kind stop-the-world, between the program's two clocks, and
nothing else is.

Exits with 0 only if all holds. Needs root, a kernel with BTF, and some minutes for the first build.
"""
import argparse
import json
import os
import sys
import tempfile

import followed
import forms

CLOCK = 2_000  # ns that two readings of one clock on two processors may be apart
STOPS = 2  # of one collection: Python/gc_free_threading.c, gc_collect_internal


class Judge:
    """Collects what does not hold."""

    def __init__(self):
        self.faults = []

    def expect(self, holds, text, *values):
        if not holds:
            self.faults.append(text % values)


def encloses(outer, inner):
    return outer["begin_ns"] <= inner["begin_ns"] + CLOCK and inner["end_ns"] <= outer["end_ns"] + CLOCK


def judge_collections(judge, truth, pauses):
    judge.expect(len(truth) == len(pauses), "%d collections, %d seen", len(truth), len(pauses))
    for number, (true, pause) in enumerate(zip(truth, pauses)):
        true["reason"] = "manual" if true["manual"] else "automatic"
        for field in ("generation", "collected", "uncollectable", "reason", "tid"):
            judge.expect(true[field] == pause[field], "collection %d: %s %s seen as %s", number, field,
                         true[field], pause[field])
        judge.expect(encloses(pause, true), "collection %d is seen at another time: %s, %s", number, true, pause)


def judge_stops(judge, pauses):
    for pause in pauses:
        stops = pause["world_stops"]
        judge.expect(len(stops) == STOPS, "%d stops of the world in pause %d", len(stops), pause["id"])
        end = pause["begin_ns"]
        for stop in stops:
            judge.expect(end <= stop["begin_ns"] <= stop["end_ns"] <= pause["end_ns"],
                         "stops of the world out of order or of their pause: %s", pause)
            end = stop["end_ns"]


def judge_calls(judge, calls, pauses):
    judge.expect(len(calls) == len(pauses), "%d calls of sys._current_frames(), %d stops of the world seen",
                 len(calls), len(pauses))
    for call, pause in zip(calls, pauses):
        judge.expect(encloses(call, pause), "a stop of the world outside of its call: %s, %s", call, pause)
        unknown = [pause[field] for field in ("generation", "reason", "collected", "uncollectable")]
        judge.expect(unknown == [None] * 4, "a stop of the world with a collection's fields: %s", pause)


def check(gcause, interpreter, form):
    judge, said = Judge(), ""
    with tempfile.TemporaryDirectory() as folder:
        launch = forms.Launch(interpreter, form, folder)
        try:
            with followed.Followed(launch, "free_threaded_target.py") as run:
                run.record(gcause, os.path.join(folder, "gcause.jsonl"))
                run.tell("go")
                run.expect("done")
                run.end_recording()
                truth, seen = [json.loads(line) for line in run.end_target()[0].splitlines()], run.seen()
            collections = [entry for entry in truth if entry["what"] == "collection"]
            calls = [entry for entry in truth if entry["what"] == "call"]
            stops = followed.pauses(seen, "stop-the-world")
            judge.expect(followed.lost(seen) == 0, "%d records lost", followed.lost(seen))
            judge_collections(judge, collections, followed.pauses(seen))
            if form == "stripped":
                told = stops + [stop for pause in followed.pauses(seen) for stop in pause["world_stops"]]
                judge.expect(not told, "stops of the world that nobody can know: %s", told)
            else:
                judge_stops(judge, followed.pauses(seen))
                judge_calls(judge, calls, stops)
            said = "%s: %d collections with %d stops of the world, %d calls with %d" % (
                followed.method(seen), len(collections),
                sum(len(pause["world_stops"]) for pause in followed.pauses(seen)), len(calls), len(stops))
        except followed.Broken as fault:
            judge.faults.append(str(fault))
    print("%-4s %-13s %-8s %-8s %s" % ("FAIL" if judge.faults else "ok", interpreter.name, interpreter.version,
                                       form, said))
    for fault in judge.faults[:5]:
        print("       " + fault)
    sys.stdout.flush()
    return not judge.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gcause", required=True)
    args = parser.parse_args()
    results = [check(args.gcause, interpreter, form) for interpreter in forms.interpreters("--free-threaded")
               for form in ("as-is", "stripped")]
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()

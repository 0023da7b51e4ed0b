#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stream reader that knows its own truth: when it collected, and when each chunk reached it.

Standard library only, Python 3.8 or later. It reads SSE streams of tests/lab/origin.py and behaves badly
on purpose, as --scenario says (several names, separated by commas, may be given):

plain         only reads
guilty        gc.collect() over the heap on the reading thread after every --every chunks
innocent      gc.collect() right after the chunk in front of a silence= of the URL: it costs nothing where the
              silence is longer
busy          computes for --busy-ms after every --every chunks, without a collection
sleep         sleeps for --sleep-ms after every --every chunks, on an event loop, too
boundary      gc.collect() after the last chunk (chunks= of the URL) and again after the request of the next
other-thread  a second thread calls gc.collect() every --period-ms
auto          automatic collections, with --alloc cyclic objects made per chunk, the last 20,000 kept
collect-rate  gc.collect(0), --gc-rate times a second, on the event loop or on a thread

Automatic collections are off except in ``auto``. "Every" counts the chunks of all streams together, or of the
first --actors connections: the others only read. With guilty, busy: busy acts half way between two collections.

When the heap is built and measured, it prints one line ``{"pid": N, ...}`` and waits for a line on standard
input or for --go-file; connections are made after that.

--log FILE ("-" is standard output) gets JSON lines at the end, times from time.monotonic_ns():

pause   begin_ns, end_ns, cpu_ns, generation, collected, tid
chunk   stream, index, ns: the first Python line after the read that completed the event returned
stream  stream, request_from_ns and request_ns (before and after it was written), end_ns, chunks, comments,
        bytes, tid, local and peer address
mark    what, ns: ``go`` and ``done`` enclose all streams; ``busy`` and the scenario's own collections.
        Collections that the interpreter makes while it exits come after ``done`` and are not listed.

The chunk log lies in arrays of integers, which the collector does not see.
"""

import argparse
import gc
import json
import os
import sys
import time

from behaviours import Scenario, build_heap, empty_lists, long_lists
from readers import Reader, Truth


def wait_for_go(options):
    """Blocks until a line (or the end) of standard input, or until the go file exists."""
    if not options.go_file:
        sys.stdin.readline()
        return
    while not os.path.exists(options.go_file):
        time.sleep(0.01)


def parse_options():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--mode", choices=("sync", "asyncio", "threads"), default="sync")
    parser.add_argument("--streams", type=int, default=1, help="connections")
    parser.add_argument("--keep-alive", type=int, default=1, metavar="R", help="streams a connection")
    parser.add_argument("--stagger-ms", type=float, default=0.0, help="between connections (not with sync)")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--cafile")
    parser.add_argument("--timeout", type=float, help="socket timeout in seconds (blocking modes)")
    parser.add_argument("--log", metavar="FILE")
    parser.add_argument("--go-file", metavar="FILE")
    parser.add_argument("--scenario", default="plain", metavar="NAME[,NAME]")
    parser.add_argument("--heap", default="", help="live lists, or auto (the default where collections hurt)")
    parser.add_argument("--heap-ms", type=float, default=170.0, help="CPU time of a collection, with auto")
    parser.add_argument("--every", type=int, default=25, help="chunks")
    parser.add_argument("--collections", type=int, default=-1, help="full collections at most")
    parser.add_argument("--actors", type=int, metavar="N", help="connections whose chunks count")
    parser.add_argument("--times", type=int, default=1, help="collections in a row")
    parser.add_argument("--busy-ms", type=float, default=200.0)
    parser.add_argument("--cpu-time", action="store_true", help="--busy-ms is CPU time")
    parser.add_argument("--sleep-ms", type=float, default=200.0)
    parser.add_argument("--period-ms", type=float, default=400.0)
    parser.add_argument("--threshold", metavar="A,B,C")
    parser.add_argument("--alloc", type=int, default=200, help="cyclic objects a chunk")
    parser.add_argument("--no-gc", action="store_true", help="auto, but under gc.disable()")
    parser.add_argument("--gc-rate", type=float, default=100.0, help="collections a second in all")
    options = parser.parse_args()
    names = {"plain", "guilty", "innocent", "busy", "sleep", "boundary", "other-thread", "auto", "collect-rate"}
    collecting = {"guilty", "innocent", "boundary", "other-thread", "auto"}
    chosen = set(options.scenario.split(","))
    if not chosen <= names:
        parser.error("--scenario: " + ", ".join(sorted(names)))
    if not options.heap:
        options.heap = "auto" if chosen & collecting else "0"
    return options


def main():
    """Builds the heap, waits for the start signal, reads the streams, writes the log."""
    options = parse_options()
    gc.disable()
    truth = Truth()
    scenario = Scenario(options, truth)
    reader = Reader(options, truth, scenario)
    make, first = (long_lists, 3000) if "auto" in scenario.names else (empty_lists, 500000)
    share = options.heap_ms / 170
    heap, took = build_heap(options.heap, make, max(100, int(first * share)), options.heap_ms)
    ready = {"pid": os.getpid(), "heap": len(heap), "collect_ms": round(took, 1)}
    print(json.dumps(ready), flush=True)
    wait_for_go(options)
    truth.mark("go", heap=len(heap), collect_ms=round(took, 1), python=sys.version.split()[0])
    gc.callbacks.extend(truth.callbacks())
    try:
        scenario.run(reader)
    finally:
        gc.callbacks.clear()
        truth.mark("done")
        if options.log:
            truth.write(options.log)
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The target of matrix.py, for CPython 3.8 and later: collects, and logs what gc.callbacks tell of it.

At a line on standard input it makes 10 manual collections of each generation, and automatic ones until there
were enough of them. At the next line it writes JSON lines, of how the collector was set at first and at last and
of each collection, and ends at once; with --exit it ends as programs do, and gc.DEBUG_STATS tells on standard
error which collections that makes.
"""
import array
import ctypes
import gc
import json
import os
import sys
import time

MANUAL = 10  # of each generation
AUTOMATIC = 1000
FIELDS = ("begin_ns", "end_ns", "generation", "collected", "uncollectable", "manual")
SETTLED = 0.2  # seconds that the last settings stay as they are
TYPE_DEL = 376  # offsetof(PyTypeObject, tp_del), Include/cpython/object.h, 64 bits, with interpreter lock

log = array.array("q")  # FIELDS of each collection: nothing in it that a collection would look at
state = array.array("q", (0, 0))  # begin of the collection that runs; whether it is a manual one
now = time.monotonic_ns


def seen(phase, info):
    if phase == "start":
        state[0] = now()
        return
    end = now()
    log.append(state[0])
    log.append(end)
    log.append(info["generation"])
    log.append(info["collected"])
    log.append(info["uncollectable"])
    log.append(state[1])


class Cycle:
    """Garbage that only a collection frees."""

    def __init__(self):
        self.me = self


class Immortal(Cycle):
    """Garbage that no collection can free."""


def make_uncollectable():
    """Gives Immortal the old kind of finalizer, which only C code can have."""
    finalizer = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    address = ctypes.cast(finalizer, ctypes.c_void_p).value
    ctypes.c_void_p.from_address(id(Immortal) + TYPE_DEL).value = address
    return finalizer


def collect_manually():
    state[1] = 1
    for generation in (0, 1, 2):
        for number in range(MANUAL):
            for _ in range(number):
                Cycle()
            if number == MANUAL // 2:
                Immortal()
            gc.collect(generation)
    state[1] = 0


def collect_automatically():
    gc.set_threshold(100, 5, 5)
    gc.enable()
    before = len(log)
    kept = []
    while len(log) < before + len(FIELDS) * AUTOMATIC:
        Cycle()
        kept.append([])
        if len(kept) > 20000:
            kept.clear()
    gc.disable()


def use_real_time():
    """Other programs of the machine shall not come between the two clocks, where that can be had."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        os.nice(-10)


def settings():
    return {"enabled": gc.isenabled(), "thresholds": gc.get_threshold(), "counts": gc.get_count(),
            "frozen": gc.get_freeze_count()}


def write_log(first, last):
    gc.callbacks.clear()
    sys.stdout.write(json.dumps([first, last]) + "\n")
    for at in range(0, len(log), len(FIELDS)):
        sys.stdout.write(json.dumps(dict(zip(FIELDS, log[at:at + len(FIELDS)]))) + "\n")


def main():
    gc.disable()
    finalizer = make_uncollectable()
    use_real_time()
    gc.callbacks.append(seen)
    gc.set_threshold(1901, 11, 9)
    first = settings()
    print("ready", flush=True)
    sys.stdin.readline()
    del log[:]
    collect_manually()
    collect_automatically()
    last = settings()
    time.sleep(SETTLED)
    print("done", flush=True)
    sys.stdin.readline()
    write_log(first, last)
    sys.stdout.flush()
    if sys.argv[1:] != ["--exit"]:
        os._exit(0)
    # The interpreter's end shall not run into an object that needs this module to be torn down.
    ctypes.c_void_p.from_address(id(Immortal) + TYPE_DEL).value = None
    gc.garbage.clear()
    gc.set_threshold(0)
    gc.enable()
    gc.set_debug(gc.DEBUG_STATS)
    return finalizer


if __name__ == "__main__":
    main()

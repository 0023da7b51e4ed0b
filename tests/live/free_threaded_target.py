# SPDX-License-Identifier: Apache-2.0
"""The target of free_threaded.py, for CPython 3.13 without the interpreter lock: threads whose world stops.

At a line on standard input it collects, by hand and automatically, in threads that go on meanwhile, and then calls
sys._current_frames(), which stops the world, too. At the next line it writes JSON lines of what it saw, and ends.
"""
import gc
import json
import os
import sys
import threading
import time

WORKERS = 1
MANUAL = 50
AUTOMATIC = 100
CALLS = 200  # of sys._current_frames()

now = time.monotonic_ns
log = []
state = {"begin": 0, "manual": False, "automatic": 0}
stop = threading.Event()


def note(phase, info):
    """Only one collection runs at a time, and its callbacks run in the thread that collects."""
    if phase == "start":
        state["begin"] = now()
        return
    manual = state["manual"] and threading.current_thread() is threading.main_thread()
    state["automatic"] += not manual
    log.append({"what": "collection", "begin_ns": state["begin"], "end_ns": now(), "manual": manual,
                "generation": info["generation"], "collected": info["collected"],
                "uncollectable": info["uncollectable"], "tid": threading.get_native_id()})


def spin():
    """Works without making anything that a collection looks at."""
    number = 1
    while not stop.is_set():
        number = number * 1103515245 % 2147483647


def litter():
    """Makes garbage that only a collection frees."""
    while state["automatic"] < AUTOMATIC:
        cycle = []
        cycle.append(cycle)


def collect():
    gc.callbacks.append(note)
    state["manual"] = True
    for number in range(MANUAL):
        for _ in range(number):
            cycle = []
            cycle.append(cycle)
        gc.collect()
    state["manual"] = False
    gc.enable()
    litterers = [threading.Thread(target=litter) for _ in range(2)]
    for thread in litterers:
        thread.start()
    for thread in litterers:
        thread.join()
    gc.disable()
    gc.callbacks.clear()


def look_at_frames():
    calls = []
    for _ in range(CALLS):
        begin = now()
        sys._current_frames()
        calls.append({"what": "call", "begin_ns": begin, "end_ns": now()})
    log.extend(calls)


def main():
    if sys._is_gil_enabled():
        raise SystemExit("this interpreter has a lock")
    gc.disable()
    workers = [threading.Thread(target=spin) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    print("ready", flush=True)
    sys.stdin.readline()
    collect()
    look_at_frames()
    stop.set()
    for worker in workers:
        worker.join()
    print("done", flush=True)
    sys.stdin.readline()
    for entry in log:
        print(json.dumps(entry))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

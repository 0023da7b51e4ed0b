# SPDX-License-Identifier: Apache-2.0
"""The target of trigger.py, for CPython 3.8 and later: starts collections from many kinds of places.

At a line on standard input it makes collections of more than a millisecond, by hand and by allocating, and notes
for each which frame the interpreter itself says that it was started in. At the next line it writes a JSON line for
each, and ends. With --stress COUNT it makes that many short collections while it computes a digest, which it
writes.
"""
import gc
import hashlib
import json
import os
import sys
import threading

HEAP = 200000  # objects that a full collection walks: some milliseconds
YOUNG = 70000  # objects that a young collection walks: more than a millisecond
AUTOMATIC = 50
FOREIGN_FILE = "/srv/b\u00fccher/\u65e5\u672c\u8a9e.py"

log = []


def note(phase, info):
    if phase == "start":
        frame = sys._getframe(1)
        log.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, info["generation"]))


class Places:
    """Functions of several kinds, each with a place from which it collects."""

    def method(self):
        return gc.collect()

    @staticmethod
    def spread(number):
        return max(
            number,
            gc.collect(),
            number + 1,
        )

    @staticmethod
    def generator():
        yield 1
        gc.collect()
        yield 2

    @staticmethod
    def nested():
        def inner():
            try:
                raise ValueError
            except ValueError:
                gc.collect()
            finally:
                gc.collect()
        inner()

    @staticmethod
    async def coroutine():
        gc.collect()

    @staticmethod
    def looped():
        for _ in range(2):

            gc.collect()

        while True:
            if gc.collect() >= 0: break


def many_lines():
    """A function of a thousand lines that collects in some of them, in a file with a name that is not ASCII."""
    lines = ["def gr\u00f6\u00dfer(gc):", "    x = 0"]
    for number in range(1000):
        if number == 500:
            lines += [""] * 700
        lines.append("    gc.collect()" if number % 250 == 125 else "    x = (x + %d) %% 7" % number)
    names = {}
    exec(compile("\n".join(lines), FOREIGN_FILE, "exec"), names)
    return names["gr\u00f6\u00dfer"]


def by_hand(places, long_function):
    places.method()
    places.spread(1)
    list(places.generator())
    places.nested()
    places.looped()
    (lambda: gc.collect())()
    [gc.collect() for _ in range(2)]
    try:
        places.coroutine().send(None)
    except StopIteration:
        pass
    sorted([2, 1], key=lambda value: gc.collect() and value)
    long_function(gc)
    gc.collect(0)  # a short one


def fill(size):
    kept = []
    for _ in range(size):
        kept.append([])
    return kept


def comprehend(size):
    return [
        {"list": []}
        for _ in range(size)
    ]


def recurse(depth, size):
    if depth:
        return recurse(depth - 1, size)
    return tuple([] for _ in range(size))


def parse(size):
    return json.loads("[" + "[],{}," * size + "0]")


def work():
    places, long_function = Places(), many_lines()
    gc.callbacks.append(note)
    for _ in range(6):
        by_hand(places, long_function)
    by_hand_too = len(log)
    gc.set_threshold(YOUNG, 20, 2)
    gc.enable()
    while len(log) < by_hand_too + AUTOMATIC:
        fill(2 * YOUNG)
        comprehend(YOUNG)
        recurse(50, 2 * YOUNG)
        parse(YOUNG)
    gc.disable()
    gc.callbacks.clear()


def collect_deep(depth):
    return collect_deep(depth - 1) + 1 if depth else gc.collect(0) * 0


def collect_lazily(count):
    for number in range(count):
        gc.collect(0)
        yield number


def stress(count):
    """Half of the collections by hand, half by allocating; the frames that start them come and go meanwhile."""
    digest, done = hashlib.sha256(), [0]

    def tally(phase, _):
        done[0] += phase == "stop"

    gc.callbacks.append(tally)
    gc.set_threshold(10, 100, 100)
    gc.enable()
    busy = threading.Thread(target=lambda: [sum(collect_lazily(100)) for _ in range(count // 1000)])
    busy.start()
    number = 0
    while done[0] < count or busy.is_alive():
        number += 1
        rounds = number % 7 if done[0] < count else 0
        text = "%d %d %d" % (number, collect_deep(rounds), sum(collect_lazily(rounds)))
        cycles = [[] for _ in range(20)]
        for cycle in cycles:
            cycle.append(cycle)
        # The number of rounds depends on chance, what is digested does not.
        if number <= count // 100:
            digest.update(text.encode())
    busy.join()
    gc.disable()
    gc.callbacks.clear()
    return digest.hexdigest()


def main():
    count = int(sys.argv[2]) if sys.argv[1:2] == ["--stress"] else 0
    kept = [[] for _ in range(0 if count else HEAP)]  # makes collections long
    gc.disable()
    print("ready", flush=True)
    sys.stdin.readline()
    answer = stress(count) if count else work()
    print("done", flush=True)
    sys.stdin.readline()
    if count:
        print(answer)
    else:
        for place in log:
            print(json.dumps(place))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

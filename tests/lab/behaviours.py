# SPDX-License-Identifier: Apache-2.0
"""What the lab client does beside reading, and its heap. Standard library only, Python 3.8 or later."""

import asyncio
import collections
import gc
import itertools
import random
import threading
import time
from urllib.parse import parse_qs, urlsplit

now = time.monotonic_ns
HEAP_WINDOW = (0.7, 1.45)
RECENT = 20000


class Node:
    """An object that refers to itself through its child, as parsed responses do."""

    def __init__(self):
        self.children = [self]


class Scenario:
    """What the process does beside reading.

    ``on_chunk`` runs on the reading thread after each chunk, ``on_request`` on it once a request is written.
    """

    def __init__(self, options, truth):
        self.options = options
        self.truth = truth
        self.names = options.scenario.split(",")
        self.counter = itertools.count(1)
        self.left = options.collections
        self.stopped = threading.Event()
        self.recent = collections.deque(maxlen=RECENT)
        query = parse_qs(urlsplit(options.url).query)
        silences = query.get("silence", [""])[0]
        self.before_silence = {int(part.partition(":")[0]) - 1 for part in silences.split(",") if part}
        self.last = int(query.get("chunks", ["0"])[0]) - 1
        actions = {"guilty": self.guilty, "innocent": self.innocent, "busy": self.busy, "auto": self.allocate,
                   "sleep": self.sleep, "boundary": self.boundary}
        self.actions = [actions[name] for name in self.names if name in actions]

    def acts_on(self, stream):
        """Whether the chunks of this stream make the process act; those of the others are only read."""
        return self.options.actors is None or stream.connection < self.options.actors

    def on_request(self, stream):
        """The boundary scenario's second collection, over the start of a response."""
        if "boundary" in self.names and self.acts_on(stream):
            self.collect("boundary", stream, 0)

    def on_chunk(self, stream, index):
        """Acts after a chunk as the scenario's names say."""
        if not self.acts_on(stream):
            return
        count = next(self.counter)
        for action in self.actions:
            action(count, stream, index)

    def collect(self, what, stream, index):
        """--times full collections in a row with their reason in the log."""
        if self.left:
            self.left -= 1
            self.truth.mark(what, stream=stream.tag, index=index)
            for _ in range(self.options.times):
                gc.collect()

    def guilty(self, count, stream, index):
        """Collects while the following chunks queue."""
        if count % self.options.every == 0:
            self.collect("guilty", stream, index)

    def innocent(self, count, stream, index):
        """Collects while the server is silent anyway."""
        del count
        if index in self.before_silence:
            self.collect("innocent", stream, index)

    def busy(self, count, stream, index):
        """Holds the interpreter without collecting."""
        every = self.options.every
        offset = every // 2 if "guilty" in self.names else 0
        if count % every == offset:
            self.truth.mark("busy", stream=stream.tag, index=index)
            clock = time.thread_time_ns if self.options.cpu_time else now
            until = clock() + int(self.options.busy_ms * 1e6)
            while clock() < until:
                pass

    def sleep(self, count, stream, index):
        """A consumer that sleeps where it should read; on an event loop it blocks the loop."""
        if count % self.options.every == 0:
            self.truth.mark("sleep", stream=stream.tag, index=index)
            time.sleep(self.options.sleep_ms / 1e3)

    def boundary(self, count, stream, index):
        """Collects between the last chunk and the end of the response."""
        del count
        if index == self.last:
            self.collect("boundary", stream, index)

    def allocate(self, count, stream, index):
        """Makes cyclic objects, of which only the collector frees those that are no longer recent."""
        del count, stream, index
        for _ in range(self.options.alloc):
            self.recent.append(Node())

    def every_ms(self, period_ms, generation):
        """Thread body: collects on an absolute schedule until stopped, catching up after a delay."""
        due = now()
        while not self.stopped.is_set():
            due += int(period_ms * 1e6)
            delay = due - now()
            if delay > 0:
                time.sleep(delay / 1e9)
            if not self.stopped.is_set():
                gc.collect(generation)

    async def rate_on_loop(self):
        """The collect-rate scenario as a task of the event loop."""
        period = int(1e9 / self.options.gc_rate)
        due = now() + period
        while True:
            while due <= now():
                gc.collect(0)
                due += period
            await asyncio.sleep(max(0, due - now()) / 1e9)

    def run(self, reader):
        """Reads all streams in the chosen mode with the scenario's side activity."""
        threads = []
        if "other-thread" in self.names:
            threads.append((self.options.period_ms, 2))
        side = None
        if "collect-rate" in self.names:
            if self.options.mode == "asyncio":
                side = self.rate_on_loop
            else:
                threads.append((1e3 / self.options.gc_rate, 0))
        workers = [threading.Thread(target=self.every_ms, args=args, daemon=True) for args in threads]
        for worker in workers:
            worker.start()
        if "auto" in self.names:
            if self.options.threshold:
                gc.set_threshold(*(int(part) for part in self.options.threshold.split(",")))
            if not self.options.no_gc:
                gc.enable()
        if self.options.mode == "asyncio":
            asyncio.run(reader.asyncio(side))
        else:
            getattr(reader, self.options.mode)()
        gc.disable()
        self.stopped.set()
        for worker in workers:
            worker.join()


def empty_lists(count):
    """``count`` containers of nothing: the cost of a collection lies in their number."""
    return [[] for _ in range(count)]


def long_lists(count):
    """``count`` lists of 1,000 strings in random order: few containers, many references.

    An automatic full collection has to wait until the containers that survived since the last one are a
    quarter of all; with millions of empty lists it would never come.
    """
    pool = ["text %d" % n for n in range(400000)] if count else []
    return [random.choices(pool, k=1000) for _ in range(count)]


def build_heap(wanted, make, first, target_ms):
    """A heap of ``wanted`` objects from make(count), or as many as make a collection take about ``target_ms``.

    Starts with ``first`` of them. Returns the heap and the milliseconds of a full collection, in CPU time, so
    that a busy machine does not make the heap smaller.
    """
    heap = []
    size = int(wanted) if wanted != "auto" else first
    low, high = (share * target_ms for share in HEAP_WINDOW)
    for _ in range(12):
        del heap[size:]
        heap.extend(make(size - len(heap)))
        times = []
        for _ in range(3):
            begin = time.thread_time_ns()
            gc.collect()
            times.append((time.thread_time_ns() - begin) / 1e6)
        took = sorted(times)[1]
        if wanted != "auto" or low <= took <= high:
            break
        # The cost is not quite linear (caches), so it approaches in steps of at most four.
        size = int(size * min(4.0, max(0.25, target_ms / max(took, 0.05))))
    return heap, took

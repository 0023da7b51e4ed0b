#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the size of the demo client's index at which a full collection takes --target-ms on this machine.

Runs before the demo, with the same interpreter and modules as its client, in a process of its own: the client
itself never collects on request. Prints ``PASSAGES MILLISECONDS``. The time is CPU time, so that a busy
machine makes the index not much smaller than a quiet one does. What streaming adds (garbage to free, colder
caches) comes on top of the target.
"""

import argparse
import gc
import sys
import time

import openai_client

TOLERANCE = 0.15
MOST = 1000000  # about 400 MB


def collection_ms():
    """The shortest of seven full collections, in milliseconds of CPU time."""
    times = []
    for _ in range(7):
        begin = time.thread_time_ns()
        gc.collect()
        times.append((time.thread_time_ns() - begin) / 1e6)
    return min(times)


def main():
    """Approaches the target in a few steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--target-ms", type=float, default=130.0)
    target = parser.parse_args().target_ms
    gc.disable()
    passages, took = 150000, 0.0
    for _ in range(5):
        index = openai_client.build_index(passages)
        took = collection_ms()
        del index
        if abs(took - target) <= TOLERANCE * target or passages == MOST:
            break
        passages = min(MOST, int(passages * min(2.0, max(0.5, target / took))))
    print(passages, round(took, 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

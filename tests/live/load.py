# SPDX-License-Identifier: Apache-2.0
"""50 streams, 2,000 chunks a second, 1,000 collections a second: nothing is lost and every count is exact.

Options make it another load, as 500 streams of 10 chunks a second without collections. Needs root and a kernel
with BTF.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

import truth


class LoadRun(truth.Run):
    """The lab client under load."""

    streams, rate, gc_rate = 50, 40, 1000  # rates are a second; that of chunks is a stream's

    def client_options(self):
        options = ["--streams", str(self.streams)]
        if self.gc_rate:
            options += ["--scenario", "collect-rate", "--gc-rate", str(self.gc_rate)]
        return options

    def query(self):
        return "chunks=%d&interval_ms=%g" % (self.args.seconds * self.rate, 1000 / self.rate)


def chunks_of_streams(records):
    """How many streams have how many chunks."""
    return collections.Counter(collections.Counter(
        record["stream"] for record in records if record["type"] == "chunk").values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--streams", type=int, default=LoadRun.streams)
    parser.add_argument("--rate", type=float, default=LoadRun.rate, help="chunks a second of each stream")
    parser.add_argument("--gc-rate", type=float, default=LoadRun.gc_rate, help="collections a second")
    args = parser.parse_args()
    LoadRun.streams, LoadRun.rate, LoadRun.gc_rate = args.streams, args.rate, args.gc_rate
    args.without = []
    with tempfile.TemporaryDirectory() as folder:
        run, judge = LoadRun(args, args.python, "asyncio", "collect-rate", False, folder), truth.Judge()
        run.go()
        start = next(r["ns"] for r in run.client if r.get("what") == "go")
        end = next(r["ns"] for r in run.client if r.get("what") == "done")
        pauses = [sum(1 for r in records if r["type"] == "pause" and r["begin_ns"] >= start
                      and r["end_ns"] <= end) for records in (run.client, run.seen)]
        chunks = [sum(1 for r in records if r["type"] == "chunk") for records in (run.client, run.seen)]
        streams = [sum(1 for r in records if r["type"] == "stream") for records in (run.client, run.seen)]
        lost = sum(r["count"] for r in run.seen if r["type"] == "lost")
        judge.expect(pauses[0] == pauses[1], "pauses: %d in the target, %d seen", *pauses)
        judge.expect(chunks[0] == chunks[1], "chunks: %d in the target, %d seen", *chunks)
        judge.expect(streams[0] == streams[1], "streams: %d in the target, %d seen", *streams)
        sizes = [chunks_of_streams(records) for records in (run.client, run.seen)]
        judge.expect(sizes[0] == sizes[1], "chunks of a stream (chunks: streams): %s in the target, %s seen",
                     *map(dict, sizes))
        judge.expect(lost == 0, "%d records lost", lost)
        seconds = (end - start) / 1e9
        print(json.dumps({"seconds": seconds, "chunks": chunks[1], "chunks_per_s": chunks[1] / seconds,
                          "pauses": pauses[1], "pauses_per_s": pauses[1] / seconds,
                          "streams": streams[1], "lost": lost}))
        for fault in judge.faults:
            print("FAIL " + fault)
        sys.exit(1 if judge.faults else 0)


if __name__ == "__main__":
    main()

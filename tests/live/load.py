# SPDX-License-Identifier: Apache-2.0
"""50 streams, 2,000 chunks a second, 1,000 collections a second: nothing is lost and every count is exact.

Needs root and a kernel with BTF.
"""
import argparse
import json
import os
import sys
import tempfile

import truth


class LoadRun(truth.Run):
    """The lab client under load."""

    def client_options(self):
        return ["--streams", "50", "--scenario", "collect-rate", "--gc-rate", "1000"]

    def query(self):
        return "chunks=%d&interval_ms=25" % (self.args.seconds * 40)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
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

# SPDX-License-Identifier: Apache-2.0
"""Streams that a process writes: truth from inside a server against gcause from outside.

Servers of the standard library (http.server with threads, asyncio streams; plain and TLS) with an engine behind them,
gateways, and servers that wait for nothing but their own clock. They time their own collections, inputs and writes,
and the engine its sends, on the clock that gcause uses. Compared are: the number of pauses, streams and chunks of
each direction (exactly), the delivery of each written chunk (between the lines around the write), its arrival (when
the input was sent), each verdict with the one that follows from the truth, and of a gateway the source of each
chunk, and the time between.

Prints a row for each run and exits with 0 only if all hold. Needs root and a kernel with BTF.
"""
import argparse
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import truth
from truth import LAB, MS

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = 5  # at a time
ROUNDS = 2  # streams on each connection
CHUNKS = 60
now = time.monotonic_ns

# kind, mode, scenario; each plain and over TLS
CASES = [(kind, mode, scenario) for kind in ("server", "gateway") for mode in ("threads", "asyncio")
         for scenario in ("guilty", "innocent", "busy")]
CASES += [("changing", "threads", "guilty"), ("changing", "asyncio", "guilty")]
CASES += [("timer", "asyncio", "guilty"), ("timer", "asyncio", "innocent")]
QUERY = {"innocent": "&silence=20:600,40:600"}


def engine(log):
    """Serves lines to whom sends a query as tests/lab/origin.py takes it, until it is killed."""
    listener = socket.create_server(("localhost", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    records = []

    def serve(link):
        query = dict(part.split("=") for part in link.makefile("r").readline().strip().split("&"))
        shift, start = 0.0, time.monotonic()
        silences = {}
        for part in query.get("silence", "").split(","):
            if part:
                silences[int(part.split(":")[0])] = float(part.split(":")[1]) / 1e3
        for index in range(int(query["chunks"])):
            shift += silences.get(index, 0)
            due = start + shift + index * float(query["interval_ms"]) / 1e3
            time.sleep(max(0, due - time.monotonic()))
            began = now()
            link.sendall(b'{"i":%d}\n' % index)
            records.append({"type": "send", "stream": query["tag"], "index": index, "from_ns": began, "ns": now()})
        link.close()

    def finish(*_):
        with open(log, "w", encoding="ascii") as out:
            for record in records:
                out.write(json.dumps(record) + "\n")
        os._exit(0)

    signal.signal(signal.SIGTERM, finish)
    while True:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(link,), daemon=True).start()


class Run:
    """One run of source, server, clients and gcause."""

    def __init__(self, args, kind, mode, scenario, tls, folder):
        self.args, self.kind, self.mode = args, kind, mode
        self.scenario, self.tls, self.folder = scenario, tls, folder
        self.is_gateway = kind in ("gateway", "changing")
        self.received = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def outputs(self):
        return ["-o", self.path("gcause.jsonl")]

    def start_source(self):
        if self.kind == "timer":
            return None, 0
        command = [sys.executable, os.path.join(LAB, "origin.py"), "--port", "0", "--log", self.path("source.jsonl")]
        if self.kind == "server":
            command = [sys.executable, os.path.abspath(__file__), "--engine", self.path("source.jsonl")]
        source = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return source, json.loads(source.stdout.readline())["port"]

    def start_server(self, port):
        command = [self.args.python, os.path.join(HERE, "written_target.py"), "--kind", self.kind, "--mode", self.mode,
                   "--scenario", self.scenario, "--source", "localhost:%d" % port, "--log", self.path("server.jsonl")]
        if self.tls:
            command += ["--tls", self.path("cert.pem"), self.path("key.pem")]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return server, json.loads(server.stdout.readline())

    def read_streams(self, client, port):
        """Reads ROUNDS streams on one connection, and counts what came."""
        context = ssl.create_default_context(cafile=self.path("ca.pem")) if self.tls else None
        link = (http.client.HTTPSConnection("localhost", port, context=context) if self.tls
                else http.client.HTTPConnection("localhost", port))
        time.sleep(client * 0.033)
        for turn in range(ROUNDS):
            tag = "s%d.%d" % (client, turn)
            link.request("GET", "/stream?tag=%s&chunks=%d&interval_ms=20%s"
                         % (tag, CHUNKS, QUERY.get(self.scenario, "")))
            body = link.getresponse().read()
            self.received[tag] = body.count(b"data: ") - body.count(b"data: [DONE]")
        link.close()

    def go(self):
        source, port = self.start_source()
        server, about = self.start_server(port)
        command = [self.args.gcause, "record", "-p", str(about["pid"]), "-b", "100ms", "--chunks", *self.outputs()]
        for feature in self.args.without:
            command += ["--without", feature]
        gcause = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = gcause.stderr.readline()
        if line != "gcause: recording pid %d\n" % about["pid"]:
            raise SystemExit("gcause: " + line + gcause.stderr.read())
        clients = [threading.Thread(target=self.read_streams, args=(n, about["port"])) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        server.stdin.close()
        server.wait()
        code = gcause.wait()
        if source:
            source.send_signal(signal.SIGTERM)
            source.wait()
        if server.returncode or code:
            raise SystemExit("server %r, gcause %r: %s" % (server.returncode, code, gcause.stderr.read()))
        chunks = truth.load(self.path("server.jsonl"))
        self.client = truth.load(self.path("server.jsonl.truth")) + chunks
        self.all_seen = truth.load(self.path("gcause.jsonl"))
        self.sends = {(r["stream"], r["index"]): r["ns"] for r in truth.load(self.path("source.jsonl"))
                      if r["type"] == "send"} if source else {}
        self.direction = {r["id"]: r["direction"] for r in self.all_seen if r["type"] == "stream"}
        # What truth.py compares: the written streams, and all that belongs to no stream.
        self.seen = [r for r in self.all_seen if self.direction.get(r.get("stream"), "write") == "write"
                     and (r["type"] != "stream" or r["direction"] == "write")]


def of(records, kind):
    return [r for r in records if r["type"] == kind]


def judge_counts(run, judge):
    """Streams, chunks and ends, exactly."""
    wanted = CLIENTS * ROUNDS
    written = of(run.seen, "stream")
    read = [r for r in of(run.all_seen, "stream") if r["direction"] == "read"]
    judge.expect(len(written) == wanted, "%d written streams of %d", len(written), wanted)
    judge.expect(all(r["chunks"] == CHUNKS and r["end"] == "done" and r["tls"] == run.tls
                     and r["host"].startswith("localhost:") for r in written), "streams: %s",
                 [(r["chunks"], r["end"], r["tls"], r["host"]) for r in written])
    judge.expect(len(read) == (wanted if run.is_gateway else 0), "%d streams read", len(read))
    judge.expect(all(r["chunks"] == CHUNKS and r["end"] == "done" for r in read), "streams read: %s",
                 [(r["chunks"], r["end"]) for r in read])
    judge.expect(set(run.received.values()) == {CHUNKS}, "clients received %s", run.received)
    summary = of(run.all_seen, "summary")[0]["by_direction"]
    judge.expect(summary["write"]["chunks"] == wanted * CHUNKS, "summary: %s", summary["write"]["chunks"])
    lost = sum(r["count"] for r in of(run.seen, "lost"))
    judge.expect(lost == 0, "%d records lost", lost)


def quantile(values, share):
    return sorted(values)[int(share * (len(values) - 1))] if values else 0


def judge_deliveries(run, judge):
    """A write returns between the line in front of it and the line behind it. With threads that one may come long
    after, as it needs the interpreter lock."""
    around = {(r["stream"], r["index"]): (r["from_ns"], r["ns"]) for r in of(run.client, "chunk")}
    seen, pairs = {}, {}
    for record in of(run.seen, "chunk"):
        seen.setdefault(record["stream"], []).append(record["delivery_ns"])
    for tag in sorted({place[0] for place in around}):
        inside = {stream: sum(around[tag, index][0] <= ns <= around[tag, index][1] for index, ns in enumerate(theirs))
                  for stream, theirs in seen.items() if len(theirs) == CHUNKS}
        best = max(inside, key=inside.get, default=None)
        if best is not None and best not in pairs.values():
            pairs[tag] = best
    judge.expect(len(pairs) == CLIENTS * ROUNDS, "%d of %d streams are found again", len(pairs), CLIENTS * ROUNDS)
    outside, late = [], []
    for tag, stream in pairs.items():
        for index, delivery in enumerate(seen[stream]):
            began, ended = around[tag, index]
            late.append(ended - delivery)
            if not began <= delivery <= ended:
                outside.append((tag, index, (delivery - began) / MS, (ended - delivery) / MS))
    judge.expect(not outside, "%d deliveries are not in their writes: %s", len(outside), outside[:5])
    if run.mode == "asyncio":
        judge.expect(quantile(late, 0.95) <= MS, "deliveries are early by %.3f ms at p95", quantile(late, 0.95) / MS)
    return seen, pairs, quantile(late, 0.95)


def truths(run):
    """When each chunk could have been written first: its input was sent, or due."""
    inputs = {(r["stream"], r["index"]): r["input_ns"] for r in of(run.client, "chunk")}
    return {place: run.sends.get(place, input_ns) for place, input_ns in inputs.items()}


def tolerance(run):
    """A timer that runs out inside of a pause of its own thread is not seen: the interval is the error."""
    return 25 * MS if run.kind == "timer" else 2 * MS


def judge_arrivals(run, judge, pairs, deliveries):
    """A chunk's arrival is that of its input, as far as that is later than the chunk before."""
    true = truths(run)
    seen = {(r["stream"], r["index"]): r["arrival_ns"] for r in of(run.seen, "chunk")}
    errors, unknown = [], 0
    for tag, stream in pairs.items():
        for index in range(1, CHUNKS):
            arrival, before = seen[stream, index], deliveries[stream][index - 1]
            if arrival is None:
                unknown += 1
            else:
                errors.append(abs(max(arrival, before) - max(true[tag, index], before)))
    judge.expect(unknown <= 10, "%d arrivals unknown", unknown)
    judge.expect(quantile(errors, 0.97) <= tolerance(run), "arrivals are off by %.3f ms at p97",
                 quantile(errors, 0.97) / MS)
    return quantile(errors, 0.97)


def judge_sources(run, judge, pairs):
    """Each chunk of a gateway passes on the one of the same index of one stream, with the time between."""
    if not run.is_gateway:
        judge.expect(all(r["source"] is None for r in of(run.seen, "chunk")), "sources without a gateway")
        return 0
    delivered = {(r["stream"], r["index"]): r["delivery_ns"] for r in of(run.all_seen, "chunk")}
    tags = {stream: tag for tag, stream in pairs.items()}
    inputs = {(r["stream"], r["index"]): r["input_ns"] for r in of(run.client, "chunk")}
    used, errors, wrong = {}, [], []
    for chunk in of(run.seen, "chunk"):
        source, place = chunk["source"], (chunk["stream"], chunk["index"])
        if source is None or source["index"] != chunk["index"] or run.direction[source["stream"]] != "read":
            wrong.append((place, source))
            continue
        used.setdefault(chunk["stream"], set()).add(source["stream"])
        between = chunk["delivery_ns"] - delivered[source["stream"], source["index"]]
        judge.expect(chunk["since_source_ns"] == between, "%s: %s ns, by the deliveries %d", place,
                     chunk["since_source_ns"], between)
        errors.append(abs(delivered[source["stream"], source["index"]] - inputs[tags[chunk["stream"]], chunk["index"]]))
    # Where the data are no help the first chunks may be mixed up, and those that come together.
    some = 0 if run.kind == "gateway" else CHUNKS * len(pairs) // 50
    judge.expect(len(wrong) <= some, "%d chunks have a wrong source: %s", len(wrong), wrong[:5])
    if run.kind == "gateway":
        judge.expect(all(len(streams) == 1 for streams in used.values()), "more than one source: %s", used)
        judge.expect(len(set().union(*used.values())) == len(used), "a source of two streams: %s", used)
    limit = 12 * MS if run.mode == "threads" else 2 * MS
    judge.expect(quantile(errors, 0.95) <= limit, "time from the source is off by %.3f ms at p95",
                 quantile(errors, 0.95) / MS)
    return quantile(errors, 0.95)


def judge_verdicts(run, judge, pauses, deliveries, pairs):
    true = truths(run)
    gaps = {(r["stream"], r["index"]): r for r in of(run.seen, "gap")}
    ids = {r["id"]: r for r in of(run.seen, "pause")}
    matrix = {}
    for tag, stream in pairs.items():
        for index in range(1, CHUNKS):
            before, delivery = deliveries[stream][index - 1], deliveries[stream][index]
            gap = gaps[stream, index]
            judge.expect(gap["over_budget"] == (delivery - before > truth.BUDGET), "gap %d of %s: %s", index, tag, gap)
            if not gap["over_budget"]:
                continue
            expected, margin = truth.true_verdict(pauses, true[tag, index], before, delivery)
            cell = (expected, gap["verdict"])
            matrix[cell] = matrix.get(cell, 0) + 1
            judge.expect(expected == gap["verdict"] or margin < tolerance(run) or run.args.without,
                         "gap %d of %s: truth %s (margin %.2f ms), seen %s", index, tag, expected, margin / MS,
                         json.dumps(gap))
            judge.expect(gap["basis"] == "arrival" or run.args.without, "gap %d of %s is judged by %s", index, tag,
                         gap["basis"])
            truth.judge_exonerated(judge, gap, ids)
    return matrix


def judge_scenario(run, judge, matrix):
    """What the scenario is made for has to have happened, or the run proves nothing."""
    seen = {}
    for (_, verdict), count in matrix.items():
        seen[verdict] = seen.get(verdict, 0) + count
    if run.scenario == "guilty":
        judge.expect(seen.get("gc", 0) + seen.get("gc-partial", 0) >= 10, "too few guilty gaps: %s", seen)
    elif run.scenario == "busy":
        # With threads only the one that computes is late.
        judge.expect(seen.get("process", 0) >= 6, "too few busy gaps: %s", seen)
    else:
        freed = sum(1 for r in of(run.seen, "gap") if r["verdict"] == "upstream" and r["exonerated"])
        judge.expect(freed >= 10, "only %d gaps with an exonerated pause", freed)


def one(args, kind, mode, scenario, tls):
    with tempfile.TemporaryDirectory() as folder:
        if tls:
            subprocess.run([os.path.join(LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
        run, judge = Run(args, kind, mode, scenario, tls, folder), truth.Judge()
        run.go()
        judge_counts(run, judge)
        pauses, seen_pauses, _ = truth.judge_pauses(run, judge)
        deliveries, pairs, late = judge_deliveries(run, judge)
        arrival = between = 0
        matrix = {}
        if len(pairs) == CLIENTS * ROUNDS:
            arrival = judge_arrivals(run, judge, pairs, deliveries)
            between = judge_sources(run, judge, pairs)
            matrix = judge_verdicts(run, judge, pauses, deliveries, pairs)
        judge_scenario(run, judge, matrix)
        cells = ", ".join("%s: %d" % (("%s->%s" % cell) if cell[0] != cell[1] else cell[0], n)
                          for cell, n in sorted(matrix.items(), key=str))
        print("%-4s %-7s %-8s %-5s %-8s pauses %2d, off by: write %7.3f ms, arrival %6.3f ms, source %6.3f ms  %s"
              % ("ok" if not judge.faults else "FAIL", kind, mode, "tls" if tls else "plain", scenario, seen_pauses,
                 late / MS, arrival / MS, between / MS, cells), flush=True)
        for fault in judge.faults[:5]:
            print("       " + fault, flush=True)
        return not judge.faults


def holds(args, *case):
    """Runs a case; on a machine that others use, too, a failed one twice more. What is wrong fails always."""
    for attempt in range(truth.ATTEMPTS):
        if one(args, *case):
            return True
        print("       (attempt %d of %d)" % (attempt + 1, truth.ATTEMPTS), flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="", help="cases whose name holds this, such as gateway-asyncio-guilty-tls")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--engine", metavar="LOG", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.engine:
        engine(args.engine)
    results = []
    for case in CASES:
        for transport in ("plain", "tls"):
            if args.only in "-".join(case + (transport,)):
                results.append(holds(args, *case, transport == "tls"))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The judge of the laboratory: what a target and its origin know to be true, against what gcause says.

The truth of a gap comes from three clocks, all CLOCK_MONOTONIC: the target's of its own collections, the
target's of its chunks (the first line of Python after the read), and the origin's of its sends. They feel the
same noise of the machine that gcause measures, so a late chunk is late for both. The arithmetic is written here a
second time, in plain Python, on purpose.

Two things a target and an origin cannot see from inside, and both are intervals here and counted: a send that
was held up (the data arrived somewhere between its two ends), and a pause at whose edge the thread lost its CPU,
between its own clock and the collector. The target's CPU clock is the witness for the second: it has to agree with
gcause that only time without a CPU is in doubt.

A gap is *on the border* where a figure of the truth that is off by 2 ms (the gap, its upstream or its charged
part), or the other end of such an interval, would give another verdict. It counts as right with any of the
verdicts that are possible so, is listed apart, and is not part of the 99 %. Any other verdict on it is wrong as
everywhere else.

    python3 tests/lab/judge.py FOLDER...      judges runs that tests/lab/run.py --keep left
"""
import argparse
import bisect
import collections
import json
import os
import sys

MS = 1_000_000
BORDER = 2 * MS
SHARE = 0.99  # of the verdicts on each class and client that have to be right
ENOUGH = 200  # gaps of a class and client from which on the share is asked of them alone
ARRIVAL = 200_000  # ns at p99
CHARGE = (500_000, 0.02)  # ns, or this share of the truth
EDGES = 0.10  # of the pauses at most may have lost their CPU at an edge, or there is too much doubt
CLASSES = ("gc", "gc-partial", "upstream", "process")
INNOCENT = ("upstream", "process", "within")
COLUMNS = CLASSES + ("within", "unjudged", "missing")

Gap = collections.namedtuple("Gap", "stream index true possible gap_ns upstream_ns charged_ns seen line")


class Logs:
    """What the three parties of one run wrote, as lists of objects, and the budget."""

    def __init__(self, client, origin, seen):
        self.client, self.origin, self.seen = client, origin, seen
        self.budget = next(r["budget_ns"] for r in seen if r["type"] == "session")

    def of(self, kind):
        return [record for record in self.seen if record["type"] == kind]


def load(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def load_logs(folder):
    """The logs of one run in a folder."""
    return Logs(*(load(os.path.join(folder, name))
                  for name in ("client.jsonl", "origin.jsonl", "gcause.jsonl")))


class Pauses:
    """The union of the target's own collections."""

    def __init__(self, records):
        self.spans = []
        for begin, end in sorted((r["begin_ns"], r["end_ns"]) for r in records):
            if self.spans and begin <= self.spans[-1][1]:
                self.spans[-1][1] = max(end, self.spans[-1][1])
            else:
                self.spans.append([begin, end])
        self.ends = [end for _, end in self.spans]

    def covered(self, start, end):
        """The length of the part of [start, end] that lies in collections."""
        total = 0
        for at in range(bisect.bisect_right(self.ends, start), len(self.spans)):
            begin, over = self.spans[at]
            if begin >= end:
                break
            total += min(end, over) - max(start, begin)
        return total


def verdict(gap, upstream, charged, budget):
    """The verdict by definition; "within" where the budget is kept."""
    if gap <= budget:
        return "within"
    if gap - charged <= budget:
        return "gc"
    if 10 * charged >= gap:
        return "gc-partial"
    return "upstream" if upstream >= gap - upstream - charged else "process"


def possible_verdicts(gap, upstream, charged, budget, most):
    """The verdicts that these figures and figures 2 ms beside one of them give.

    ``most`` is the pause time in and around the gap: what no pause is near to cannot have been charged more.
    """
    found = {verdict(gap, upstream, charged, budget)}
    for shift in (-BORDER, BORDER):
        found.add(verdict(gap + shift, upstream, charged, budget))
        found.add(verdict(gap, upstream + shift, charged, budget))
        found.add(verdict(gap, upstream, max(0, min(charged + shift, most)), budget))
    return found


class TrueGap:
    """One gap by the clocks of the target and the origin, with everything that those leave open."""

    def __init__(self, unions, send, before, delivery, budget):
        """``unions``: the pauses by the target's clock, and where some edges were held up also without those."""
        self.gap = delivery - before
        self.possible, charges = set(), []
        quick = send["ns"] - send["from_ns"] <= ARRIVAL
        for instant in (send["ns"],) if quick else (send["ns"], send["from_ns"]):
            arrival = min(max(instant, before), delivery)
            for union in unions:
                charged = union.covered(arrival, delivery)
                charges.append(charged)
                self.possible |= possible_verdicts(self.gap, arrival - before, charged, budget,
                                                   union.covered(before - BORDER, delivery + BORDER))
        self.upstream = min(max(send["ns"], before), delivery) - before
        self.charged, self.charges = charges[0], (min(charges), max(charges))
        self.verdict = verdict(self.gap, self.upstream, self.charged, budget)

    def charge_error(self, seen):
        """How far a charge is from what is possible, ns."""
        return max(0, self.charges[0] - seen, seen - self.charges[1])


def pair_streams(truth, seen):
    """{the target's name of a stream: gcause's}, by how well the deliveries agree."""
    costs = sorted((sum(abs(a - b) for a, b in zip(mine, theirs)) / len(mine), tag, stream)
                   for tag, mine in truth.items() for stream, theirs in seen.items()
                   if len(mine) == len(theirs))
    pairs, used = {}, set()
    for _, tag, stream in costs:
        if tag not in pairs and stream not in used:
            pairs[tag] = stream
            used.add(stream)
    return pairs


def by_stream(records, field):
    """{stream: the values of a field in the order of the chunks}."""
    streams = {}
    for record in records:
        streams.setdefault(record["stream"], []).append(record[field])
    return streams


class Tally:
    """What one or many runs showed."""

    def __init__(self):
        self.runs = 0
        self.matrix = collections.Counter()  # (true, seen), off the border, or wrong on it
        self.border = collections.Counter()  # (true, seen), on the border, and possible
        self.convicted = []  # innocent gaps that were seen as the collector's
        self.wrong = []
        self.arrivals = []  # ns off
        self.held_sends = self.unknown_arrivals = self.queued = 0
        self.charges = []  # (ns off, true ns)
        self.first_chunks = []  # (ns off, true ns)
        self.pauses = self.held_edges = 0
        self.held_first_chunks = 0  # those that a collection held back
        self.bases = collections.Counter()
        self.faults = []

    def add(self, other):
        """Adds another tally to this one."""
        for name, value in vars(other).items():
            if isinstance(value, collections.Counter):
                getattr(self, name).update(value)
            elif isinstance(value, list):
                getattr(self, name).extend(value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def count(self, gap):
        """Enters one gap."""
        cell = (gap.true, gap.seen)
        if gap.seen == gap.true and len(gap.possible) == 1:
            self.matrix[cell] += 1
        elif gap.seen in gap.possible and len(gap.possible) > 1:
            self.border[cell] += 1
        else:
            self.matrix[cell] += 1
            self.wrong.append(gap)
        if gap.seen == "gc" and gap.true in INNOCENT and "gc" not in gap.possible:
            self.convicted.append(gap)

    def of_class(self, true):
        """(gaps off the border of this class, those of them that were seen so)."""
        row = [count for cell, count in self.matrix.items() if cell[0] == true]
        return sum(row), self.matrix[true, true]

    def right(self):
        """(gaps above the budget off the border, those of them that were seen right). Where truth and gcause
        agree that a gap is within the budget there is no verdict, and it counts for neither."""
        counted = sum(self.matrix.values()) - self.matrix["within", "within"]
        return counted, sum(self.matrix[name, name] for name in CLASSES)


def judge_run(logs):
    """The tally of one run."""
    tally = Tally()
    tally.runs = 1
    unions = judge_pauses(logs, tally)
    truth = by_stream((r for r in logs.client if r["type"] == "chunk"), "ns")
    seen = by_stream(logs.of("chunk"), "delivery_ns")
    pairs = pair_streams(truth, seen)
    for tag in sorted(set(truth) - set(pairs)):
        tally.faults.append("no stream of gcause's has the %d chunks of %s" % (len(truth[tag]), tag))
    if len(seen) > len(pairs):
        tally.faults.append("gcause saw %d streams, the target read %d" % (len(seen), len(truth)))
    sends = {(r["stream"], r["index"]): r for r in logs.origin if r["type"] == "send"}
    judge_gaps(logs, tally, unions, truth, pairs, sends)
    judge_arrivals(logs, tally, pairs, sends)
    judge_first_chunks(logs, tally, unions, truth, pairs, sends)
    lost = sum(r["count"] for r in logs.of("lost"))
    if lost:
        tally.faults.append("%d records lost" % lost)
    return tally


def judge_pauses(logs, tally):
    """Each collection of the target's is one pause of gcause's. Returns the unions for TrueGap."""
    start, end = (next(r["ns"] for r in logs.client if r.get("what") == what) for what in ("go", "done"))
    mine = sorted((r for r in logs.client if r["type"] == "pause"), key=lambda r: r["begin_ns"])
    seen = sorted((r for r in logs.of("pause") if r["begin_ns"] >= start and r["end_ns"] <= end),
                  key=lambda r: r["begin_ns"])
    tally.pauses += len(mine)
    if len(mine) != len(seen):
        tally.faults.append("%d pauses in the target, %d seen" % (len(mine), len(seen)))
        return [Pauses(mine)]
    held = [held_at_edge(*pair) for pair in zip(mine, seen)]
    tally.held_edges += sum(held)
    if not any(held):
        return [Pauses(mine)]
    return [Pauses(mine), Pauses([b if doubt else a for a, b, doubt in zip(mine, seen, held)])]


def held_at_edge(mine, seen):
    """Whether the target's clock makes a pause longer only by time in which its thread had no CPU."""
    longer = mine["end_ns"] - mine["begin_ns"] - (seen["end_ns"] - seen["begin_ns"])
    inside = mine["begin_ns"] <= seen["begin_ns"] and seen["end_ns"] <= mine["end_ns"]
    if not inside or longer <= ARRIVAL or seen["cpu_ns"] is None:
        return False
    return abs(mine["cpu_ns"] - seen["cpu_ns"]) <= max(CHARGE[0], CHARGE[1] * mine["cpu_ns"])


def judge_gaps(logs, tally, unions, truth, pairs, sends):
    """Every gap of the truth against gcause's line on it."""
    lines = {(r["stream"], r["index"]): r for r in logs.of("gap")}
    for tag, stream in pairs.items():
        chunks = truth[tag]
        for index in range(1, len(chunks)):
            true = TrueGap(unions, sends[tag, index], chunks[index - 1], chunks[index], logs.budget)
            line = lines.pop((stream, index), None)
            tally.count(Gap(tag, index, true.verdict, true.possible, true.gap, true.upstream, true.charged,
                            seen_verdict(line), line))
            if line and (true.verdict != "within" or line["over_budget"]):
                tally.bases[line["basis"]] += 1
                tally.charges.append((true.charge_error(line["charged_ns"]), true.charged))
    if lines:
        tally.faults.append("%d gaps that are none, as across two responses: %s"
                            % (len(lines), json.dumps(next(iter(lines.values())))))


def seen_verdict(line):
    if line is None:
        return "missing"
    if not line["over_budget"]:
        return "within"
    return line["verdict"] or "unjudged"


def judge_arrivals(logs, tally, pairs, sends):
    """Arrivals against the origin's sends. A send that was itself held up is an interval, and counted."""
    tags = {stream: tag for tag, stream in pairs.items()}
    for chunk in logs.of("chunk"):
        send = sends.get((tags.get(chunk["stream"]), chunk["index"]))
        if send is None:
            continue
        if "queued" in send:
            tally.queued += 1
        elif chunk["arrival_ns"] is None:
            tally.unknown_arrivals += 1
        elif send["ns"] - send["from_ns"] > ARRIVAL:
            tally.held_sends += 1
            tally.arrivals.append(max(0, send["from_ns"] - chunk["arrival_ns"], chunk["arrival_ns"] - send["ns"]))
        else:
            tally.arrivals.append(abs(chunk["arrival_ns"] - send["ns"]))


def judge_first_chunks(logs, tally, unions, truth, pairs, sends):
    """The times to first chunk, and what of them was charged."""
    requests = {r["stream"]: r for r in logs.client if r["type"] == "stream"}
    seen = {r["id"]: r for r in logs.of("stream")}
    for tag, stream in pairs.items():
        delivery, line, request = truth[tag][0], seen.get(stream, {}), requests[tag]
        # The write woke the origin, which is sooner back than the target is at its clock.
        least, most = delivery - request["request_ns"], delivery - request["request_from_ns"]
        true = TrueGap(unions, sends[tag, 0], request["request_from_ns"], delivery, logs.budget)
        if line.get("first_chunk_ns") is None:
            tally.faults.append("no time to first chunk for %s" % tag)
            continue
        tally.first_chunks.append((max(0, least - line["first_chunk_ns"], line["first_chunk_ns"] - most), least))
        if true.charged > CHARGE[0]:
            tally.held_first_chunks += 1
            tally.charges.append((true.charge_error(line.get("first_chunk_charged_ns", 0)), true.charged))


def quantile(values, share):
    """Nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share * 1000) // 1000) - 1)] if ordered else 0


def within(pairs):
    """How many of the (error, truth) are in the limit for charges."""
    return sum(1 for error, true in pairs if error <= max(CHARGE[0], CHARGE[1] * true))


def broken_rules(tallies, minimum=0):
    """What does not hold of the tallies by client; each class and client needs ``minimum`` gaps."""
    broken = []
    for client, tally in tallies.items():
        counted, right = tally.right()
        if right < SHARE * counted:
            broken.append("%s: %d of %d verdicts are right" % (client, right, counted))
        if tally.convicted:
            broken.append("%s: %d innocent gaps were blamed on the collector" % (client, len(tally.convicted)))
        for name in CLASSES:
            count, good = tally.of_class(name)
            if count >= ENOUGH and good < SHARE * count:
                broken.append("%s: %d of %d gaps of class %s were seen so" % (client, good, count, name))
            if count < minimum:
                broken.append("%s: only %d gaps of class %s, off the border" % (client, count, name))
        if quantile(tally.arrivals, 0.99) > ARRIVAL:
            broken.append("%s: arrivals are off by %.3f ms at p99" % (client, quantile(tally.arrivals, 0.99) / MS))
        if tally.held_edges > EDGES * tally.pauses:
            broken.append("%s: %d of %d pauses lost their CPU at an edge: no truth" % (
                client, tally.held_edges, tally.pauses))
        for what, pairs in (("charges", tally.charges), ("times to first chunk", tally.first_chunks)):
            if within(pairs) < SHARE * len(pairs):
                broken.append("%s: %d of %d %s are within 0.5 ms or 2 %%" % (
                    client, within(pairs), len(pairs), what))
        if tally.faults:
            broken.append("%s: %d faults, the first: %s" % (client, len(tally.faults), tally.faults[0]))
    return broken


def show_matrix(title, tally, out=sys.stdout):
    """One confusion matrix: a row for each true class."""
    columns = [name for name in COLUMNS if name in CLASSES or any(cell[1] == name for cell in tally.matrix)]
    rows = [name for name in CLASSES + ("within",) if any(cell[0] == name for cell in tally.matrix)]
    counted, right = tally.right()
    print("%s: %d of %d right (%.2f %%), %d innocent convicted, on the border %d (%d of them seen otherwise)" % (
        title, right, counted, 100 * right / counted if counted else 0, len(tally.convicted),
        sum(count for cell, count in tally.border.items() if cell != ("within", "within")),
        sum(count for cell, count in tally.border.items() if cell[0] != cell[1])), file=out)
    print("    %-14s" % "true \\ seen" + "".join("%12s" % name for name in columns), file=out)
    for row in rows:
        print("    %-14s" % row + "".join("%12d" % tally.matrix[row, name] for name in columns), file=out)


def show_errors(title, tally, out=sys.stdout):
    """One line on arrivals, charges and times to first chunk."""
    charges, firsts = tally.charges, tally.first_chunks
    errors = [error for error, _ in charges]
    print("    %s: arrival p50 %.3f p99 %.3f max %.3f ms of %d (%d sends held up, %d unknown, %d queued); "
          "charge p50 %.3f p99 %.3f ms, %d of %d in the limit; first chunk p99 %.3f ms, %d of %d, "
          "%d charged; %d of %d pauses held at an edge; basis %s"
          % (title, quantile(tally.arrivals, 0.5) / MS, quantile(tally.arrivals, 0.99) / MS,
             max(tally.arrivals, default=0) / MS, len(tally.arrivals), tally.held_sends, tally.unknown_arrivals,
             tally.queued, quantile(errors, 0.5) / MS, quantile(errors, 0.99) / MS, within(charges), len(charges),
             quantile([error for error, _ in firsts], 0.99) / MS, within(firsts), len(firsts),
             tally.held_first_chunks, tally.held_edges, tally.pauses,
             ", ".join("%s %d" % pair for pair in sorted(tally.bases.items())) or "none"), file=out)


def describe(gap):
    """A wrong verdict in one line."""
    line = gap.line or {}
    return ("gap %d of %s: true %s (gap %.2f, upstream %.2f, charged %.2f ms), seen %s (gap %.2f, upstream %.2f, "
            "charged %.2f ms, basis %s)" % (
                gap.index, gap.stream, gap.true, gap.gap_ns / MS, gap.upstream_ns / MS, gap.charged_ns / MS,
                gap.seen, *(line.get(part, 0) / MS for part in ("gap_ns", "upstream_ns", "charged_ns")),
                line.get("basis")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("folder", nargs="+")
    args = parser.parse_args()
    total = Tally()
    for folder in args.folder:
        total.add(judge_run(load_logs(folder)))
    show_matrix("all", total)
    show_errors("all", total)
    for gap in total.wrong[:20]:
        print("    " + describe(gap))
    broken = broken_rules({"all": total})
    for rule in broken:
        print("BROKEN " + rule)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

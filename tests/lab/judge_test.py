# SPDX-License-Identifier: Apache-2.0
"""The judge on logs made by hand: the truth is found, and each kind of wrong answer is caught. Needs nothing."""
import copy
import sys
import unittest

import judge

MS = judge.MS
BUDGET = 40 * MS


def send(stream, index, at, took=0.02):
    return {"type": "send", "stream": stream, "index": index, "from_ns": round((at - took) * MS),
            "ns": round(at * MS)}


def chunk(stream, index, at):
    return {"type": "chunk", "stream": stream, "index": index, "ns": round(at * MS)}


def pause(begin, end, cpu=None):
    return {"type": "pause", "begin_ns": begin * MS, "end_ns": end * MS,
            "cpu_ns": (end - begin if cpu is None else cpu) * MS, "generation": 2, "collected": 0, "tid": 1}


def truth():
    """A client of one stream with a gap of every class behind its first chunk at 1000 ms."""
    deliveries = [1000, 1020, 1120, 1320, 1440, 1540]
    arrivals = [1000, 1020, 1040, 1320, 1390, 1460]
    pauses = [pause(1022, 1118),  # chunk 2 waits for it
              pause(1121, 1221),  # in the silence in front of chunk 3
              pause(1330, 1439)]  # chunk 4 is late by more than the budget anyway
    client = [{"type": "mark", "what": "go", "ns": 0}, {"type": "mark", "what": "done", "ns": 2000 * MS}, *pauses,
              {"type": "stream", "stream": "s", "request_from_ns": 979 * MS,
               "request_ns": 980 * MS}]
    client += [chunk("s", index, at) for index, at in enumerate(deliveries)]
    return client, [send("s", index, at) for index, at in enumerate(arrivals)]


def line(index, start, end, upstream, charged, verdict, **more):
    gap = end - start
    fields = {"type": "gap", "stream": 7, "index": index, "from_ns": start * MS, "to_ns": end * MS,
              "gap_ns": gap * MS, "upstream_ns": upstream * MS, "charged_ns": charged * MS, "basis": "arrival",
              "over_budget": gap * MS > BUDGET, "verdict": verdict}
    fields.update(more)
    return fields


def said():
    """What a gcause without fault says about truth()."""
    client, origin = truth()
    seen = [{"type": "session", "budget_ns": BUDGET}]
    seen += [r for r in client if r["type"] == "pause"]
    for sent, read in zip(origin, (r for r in client if r["type"] == "chunk")):
        seen.append({"type": "chunk", "stream": 7, "index": read["index"], "delivery_ns": read["ns"],
                     "arrival_ns": sent["ns"] - 10_000})
    seen += [line(1, 1000, 1020, 20, 0, None), line(2, 1020, 1120, 20, 78, "gc"),
             line(3, 1120, 1320, 200, 0, "upstream"), line(4, 1320, 1440, 70, 49, "gc-partial"),
             line(5, 1440, 1540, 20, 0, "process")]
    seen.append({"type": "stream", "id": 7, "first_chunk_ns": 20 * MS})
    return seen


def judged(seen, origin=None, client=None):
    honest = truth()
    return judge.judge_run(judge.Logs(client or honest[0], origin or honest[1], seen))


def gap_of(seen, index):
    return next(r for r in seen if r["type"] == "gap" and r["index"] == index)


class TheTruth(unittest.TestCase):
    def test_verdicts(self):
        tally = judged(said())
        self.assertEqual({(name, name): 1 for name in judge.CLASSES + ("within",)}, dict(tally.matrix))
        self.assertEqual(tally.right(), (4, 4))
        self.assertEqual([], judge.broken_rules({"sync": tally}, 1))

    def test_definition(self):
        figures = {(40, 0, 0): "within", (41, 0, 1): "gc", (100, 20, 60): "gc", (100, 45, 10): "gc-partial",
                   (100, 55, 9): "upstream", (100, 40, 9): "process", (100, 50, 0): "upstream"}
        for (gap, upstream, charged), verdict in figures.items():
            self.assertEqual(verdict, judge.verdict(gap, upstream, charged, 40), (gap, upstream, charged))

    def test_union_of_pauses(self):
        pauses = judge.Pauses([pause(10, 20), pause(15, 30), pause(40, 50), pause(60, 70)])
        self.assertEqual(20 * MS, pauses.covered(0, 45 * MS) - 5 * MS)
        self.assertEqual(15 * MS, pauses.covered(25 * MS, 62 * MS) - 2 * MS)
        self.assertEqual(0, pauses.covered(30 * MS, 40 * MS))

    def test_no_pause_near_is_no_border(self):
        self.assertEqual({"upstream"}, judge.possible_verdicts(44 * MS, 43 * MS, 0, BUDGET, 0))
        self.assertIn("gc", judge.possible_verdicts(41 * MS, 40 * MS, 0, BUDGET, 5 * MS))


class WrongAnswers(unittest.TestCase):
    def broken(self, seen, words, **logs):
        rules = " / ".join(judge.broken_rules({"sync": judged(seen, **logs)}))
        self.assertIn(words, rules)

    def test_every_wrong_verdict(self):
        for index in (2, 3, 4, 5):
            for verdict in judge.CLASSES:
                seen = said()
                if gap_of(seen, index)["verdict"] != verdict:
                    gap_of(seen, index)["verdict"] = verdict
                    self.broken(seen, "3 of 4 verdicts are right")

    def test_innocent_convicted(self):
        for index in (3, 5):
            seen = said()
            gap_of(seen, index)["verdict"] = "gc"
            self.broken(seen, "1 innocent gaps were blamed")

    def test_within_the_budget_convicted(self):
        seen = said()
        gap_of(seen, 1).update(over_budget=True, verdict="gc")
        self.broken(seen, "1 innocent gaps were blamed")
        self.broken(seen, "4 of 5 verdicts are right")

    def test_no_verdict(self):
        for change in ({"verdict": None}, {"verdict": None, "over_budget": False}):
            seen = said()
            gap_of(seen, 2).update(change)
            self.broken(seen, "3 of 4 verdicts are right")

    def test_missing_gap(self):
        seen = said()
        seen.remove(gap_of(seen, 2))
        self.broken(seen, "3 of 4 verdicts are right")

    def test_overlap_only(self):
        """The rule that blames whatever overlaps convicts the gap with the pause in a silence."""
        seen = said()
        gap_of(seen, 3).update(charged_ns=100 * MS, upstream_ns=0, verdict="gc-partial", basis="overlap")
        self.broken(seen, "3 of 4 verdicts are right")
        self.broken(seen, "charges are within")

    def test_gap_across_responses(self):
        self.broken(said() + [line(6, 1540, 1640, 100, 0, "upstream")], "1 gaps that are none")

    def test_pauses(self):
        seen = said()
        seen.remove(next(r for r in seen if r["type"] == "pause"))
        self.broken(seen, "3 pauses in the target, 2 seen")

    def test_missing_chunk(self):
        seen = said()
        seen.remove(next(r for r in seen if r["type"] == "chunk"))
        self.broken(seen, "no stream of gcause's has the 6 chunks of s")

    def test_arrivals(self):
        seen = said()
        next(r for r in seen if r["type"] == "chunk" and r["index"] == 2)["arrival_ns"] += 300_000
        self.broken(seen, "arrivals are off by 0.290 ms")

    def test_charge(self):
        seen = said()
        gap_of(seen, 2)["charged_ns"] += 2 * MS
        self.broken(seen, "3 of 4 charges")

    def test_first_chunk(self):
        seen = said()
        seen[-1]["first_chunk_ns"] += 2 * MS
        self.broken(seen, "0 of 1 times to first chunk")

    def test_first_chunk_charge(self):
        """A pause over the first chunk that is not charged to it."""
        client = truth()[0] + [pause(960, 999)]
        origin = copy.deepcopy(truth()[1])
        origin[0] = send("s", 0, 981)
        seen = said() + [pause(960, 999)]
        chunks = [r for r in seen if r["type"] == "chunk"]
        chunks[0]["arrival_ns"] = 981 * MS
        self.broken(seen, "4 of 5 charges", client=client, origin=origin)
        next(r for r in seen if r["type"] == "stream")["first_chunk_charged_ns"] = 18 * MS
        self.assertEqual([], judge.broken_rules({"sync": judged(seen, client=client, origin=origin)}))

    def test_losses(self):
        self.broken(said() + [{"type": "lost", "count": 3}], "3 records lost")

    def test_too_few(self):
        self.assertIn("sync: only 1 gaps of class gc, off the border",
                      judge.broken_rules({"sync": judged(said())}, 2))

    def test_one_class_alone(self):
        """Three wrong of 200 of one class break the rule even where the other classes hide them in the total."""
        tally = judge.Tally()
        tally.matrix.update({("gc", "gc"): 5000, ("process", "process"): 197, ("process", "upstream"): 3})
        self.assertEqual(["sync: 197 of 200 gaps of class process were seen so"],
                         judge.broken_rules({"sync": tally}))


class HeldEdges(unittest.TestCase):
    """A target that loses its CPU between the collector and its own clock."""

    def short(self, cpu):
        """What is said where the first pause ends 8 ms before the target's clock says so."""
        seen = said()
        next(r for r in seen if r["type"] == "pause").update(end_ns=1110 * MS, cpu_ns=cpu * MS)
        gap_of(seen, 2)["charged_ns"] -= 8 * MS
        return seen

    def client(self, cpu):
        client = truth()[0]
        next(r for r in client if r["type"] == "pause")["cpu_ns"] = cpu * MS
        return client

    def test_witness(self):
        tally = judged(self.short(60), client=self.client(60))
        self.assertEqual(1, tally.held_edges)
        self.assertEqual(4, judge.within(tally.charges))

    def test_no_witness(self):
        for cpu in (50, 68):
            tally = judged(self.short(cpu), client=self.client(60))
            self.assertEqual(0, tally.held_edges)
            self.assertEqual(3, judge.within(tally.charges))

    def test_too_much_doubt(self):
        rules = judge.broken_rules({"sync": judged(self.short(60), client=self.client(60))})
        self.assertEqual(["sync: 1 of 3 pauses lost their CPU at an edge: no truth"], rules)


class TheBorder(unittest.TestCase):
    def shifted(self, index, at):
        """The truth with chunk ``index`` sent at another time."""
        origin = copy.deepcopy(truth()[1])
        origin[index] = send("s", index, at)
        return origin

    def test_counted_apart(self):
        # Sent 39 ms into the gap, of which the 78 ms behind are charged but for 2: but for 1 ms it is no gc.
        origin = self.shifted(2, 1057)
        tally = judged(said(), origin)
        self.assertEqual({("gc", "gc"): 1}, dict(tally.border))
        seen = said()
        gap_of(seen, 2)["verdict"] = "gc-partial"
        tally = judged(seen, origin)
        self.assertEqual({("gc", "gc-partial"): 1}, dict(tally.border))
        self.assertEqual(tally.right(), (3, 3))

    def test_what_is_not_possible_is_wrong(self):
        seen = said()
        gap_of(seen, 2)["verdict"] = "upstream"
        tally = judged(seen, self.shifted(2, 1057))
        self.assertEqual({}, dict(tally.border))
        self.assertEqual(tally.right(), (4, 3))

    def test_held_up_send(self):
        """A send that took 60 ms is an arrival at some time in them."""
        origin = copy.deepcopy(truth()[1])
        origin[2] = send("s", 2, 1090, 60)
        tally = judged(said(), origin)
        self.assertEqual({("gc-partial", "gc"): 1}, dict(tally.border))
        self.assertEqual(1, tally.held_sends)


if __name__ == "__main__":
    sys.exit(unittest.main())

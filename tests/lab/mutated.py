# SPDX-License-Identifier: Apache-2.0
"""A wrong rule has to fail the laboratory: verdicts by overlap alone.

Runs scenarios with a gcause that is not told when data arrived, so that every pause in a gap counts as its cause,
and passes only if the judge convicts that gcause of convicting the innocent. The same scenarios with arrivals have
to pass. Prints both matrices; the figures are in docs/architecture.md. Needs what tests/lab/run.py needs.
"""
import argparse
import sys

import judge
import run

SCENARIOS = ("innocent", "partial", "busy", "guilty")
# What tells arrivals, in the order in which gcause tries it.
ARRIVALS = ("sk_data_ready", "tcp_probe")


def figures(args, without):
    """The tally of all scenarios, and the rules that it breaks."""
    args.without = list(without)
    tallies = run.run_all(args, run.planned(args))
    total = judge.Tally()
    for tally in tallies.values():
        total.add(tally)
    title = "by overlap" if without else "by arrival"
    judge.show_matrix(title, total)
    judge.show_errors("errors", total)
    innocent = sum(total.of_class(name)[0] for name in judge.INNOCENT[:2])
    convicted = sum(count for cell, count in total.matrix.items()
                    if cell[0] in judge.INNOCENT[:2] and cell[1] in ("gc", "gc-partial"))
    print("%s: %d of %d innocent gaps above the budget are blamed on the collector (gc %d)" % (
        title, convicted, innocent, len(total.convicted)), flush=True)
    return total, judge.broken_rules({title: total})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--client", action="append", choices=run.CLIENTS)
    parser.add_argument("--python", action="append", default=None)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    args.scenario, args.transport, args.short, args.busy, args.keep = list(SCENARIOS), None, True, False, None
    right, broken = figures(args, ())
    for rule in broken:
        print("BROKEN " + rule)
    mutated, caught = figures(args, ARRIVALS)
    for rule in caught:
        print("caught: " + rule)
    wanted = ("verdicts are right", "innocent gaps were blamed")
    missed = [words for words in wanted if not any(words in rule for rule in caught)]
    if set(mutated.bases) != {"overlap"}:
        missed.append("that no arrival was used: basis %s" % dict(mutated.bases))
    for words in missed:
        print("FAIL the judge did not say: " + words)
    if "arrival" not in right.bases:
        print("FAIL this kernel tells no arrivals")
        return 1
    return 1 if broken or missed else 0


if __name__ == "__main__":
    sys.exit(main())

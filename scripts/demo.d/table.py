#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the demo's table from gcause's JSON lines.

    table.py LABEL=FILE...

One row for each file, from its ``summary`` record (docs: JSON lines). ``{thresholds}`` in a label becomes the
collector's thresholds as gcause saw them when it attached, if it did. A value that is not known is a dash.
"""

import json
import sys

HEADINGS = (
    "setting",
    "first chunk p50",
    "first chunk p99",
    "gap p50",
    "gap p99",
    "longest pause",
    "but-for p99",
    "verdicts on gaps over budget",
)


def milliseconds(value_ns):
    """Nanoseconds for a reader: ``1,820 ms``, one decimal below 10, a dash for None."""
    if value_ns is None:
        return "-"
    value = value_ns / 1e6
    return "%.1f ms" % value if 0 < value < 9.95 else "{:,.0f} ms".format(value)


def at(record, *path):
    """record[path[0]][path[1]]..., or None where something on the way is missing or null."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def verdicts(summary):
    """``gc 95, upstream 2``: the counts that are not zero."""
    counts = at(summary, "verdicts") or {}
    said = ["%s %d" % (name, count) for name, count in counts.items() if count]
    return ", ".join(said) or "none"


def load(path):
    """(process record, summary record) of the process with the most chunks in a JSON lines file."""
    processes, summaries = {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if record.get("type") == "process":
                processes[record.get("pid")] = record
            elif record.get("type") == "summary":
                summaries.append(record)
    if not summaries:
        raise ValueError("%s has no summary record" % path)
    summary = max(summaries, key=lambda record: record.get("chunks") or 0)
    return processes.get(summary.get("pid"), {}), summary


def row(label, path):
    """The cells of one file."""
    process, summary = load(path)
    thresholds = at(process, "gc", "thresholds")
    shown = "(%s)" % ", ".join(str(value) for value in thresholds) if thresholds else ""
    longest = at(summary, "pauses", "max_ns")
    if at(summary, "pauses", "count") == 0:
        longest = 0
    return (
        label.replace("{thresholds}", shown).strip(),
        milliseconds(at(summary, "first_chunk", "p50_ns")),
        milliseconds(at(summary, "first_chunk", "p99_ns")),
        milliseconds(at(summary, "gap", "p50_ns")),
        milliseconds(at(summary, "gap", "p99_ns")),
        milliseconds(longest),
        milliseconds(at(summary, "but_for", "p99_ns")),
        verdicts(summary),
    )


def main(arguments):
    """Prints the table, columns aligned: words to the left, numbers to the right."""
    if not arguments or not all("=" in argument for argument in arguments):
        print("usage: table.py LABEL=FILE...", file=sys.stderr)
        return 2
    try:
        rows = [row(*argument.rsplit("=", 1)) for argument in arguments]
    except (OSError, ValueError) as error:
        print("table.py: %s" % error, file=sys.stderr)
        return 1
    widths = [max(map(len, column)) for column in zip(HEADINGS, *rows)]
    words = {0, len(HEADINGS) - 1}

    def line(cells):
        padded = (
            cell.ljust(width) if number in words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths))
        )
        return "| %s |" % " | ".join(padded)

    print(line(HEADINGS))
    rules = ("-" * (width + 1) + ("-" if n in words else ":") for n, width in enumerate(widths))
    print("|%s|" % "|".join(rules))
    for cells in rows:
        print(line(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

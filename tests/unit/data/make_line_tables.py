#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints line tables of real functions with the line of each instruction, as this interpreter says.

    PYTHON tests/unit/data/make_line_tables.py >>tests/unit/data/line_tables.txt

Each line: kind, version, name, first line, the table in hex, then OFFSET:LINE of every second byte of the
code where the line changes; "-" is an instruction without a line. The end of the code follows as END:OFFSET.
"""
import argparse
import asyncio.base_events
import dis
import json.decoder
import sys

VERSION = sys.version_info[:2]


def sample():
    """Comprehensions, long lines, jumps backwards, try, with, a hole of many lines."""
    total = 0
    for number in [n * 2 for n in range(10) if n %
                   3]:
        try:
            with open("/dev/null") as file:
                total += len(file.read()) + (
                    number
                    if number > 4 else

                    -number)
        except (OSError,
                ValueError) as error:
            total -= len(str(error))
        finally:
            total += 1















































































































































    return lambda: total


def lines(code):
    """(offset, line or None) wherever the line changes."""
    if VERSION >= (3, 10):
        found, last = [], object()
        for start, end, line in code.co_lines():
            if start != end and line != last:
                found.append((start, line))
                last = line
        return found
    return list(dis.findlinestarts(code))


def show(name, code):
    kind = "lnotab" if VERSION < (3, 10) else "linetable" if VERSION == (3, 10) else "locations"
    table = code.co_lnotab if VERSION < (3, 10) else code.co_linetable
    text = " ".join("%d:%s" % (offset, "-" if line is None else line) for offset, line in lines(code))
    print(kind, "%d.%d" % VERSION, name, code.co_firstlineno, table.hex(), text, "END:%d" % len(code.co_code))


for function in (sample, argparse.ArgumentParser.parse_known_args, json.decoder.JSONObject,
                 asyncio.base_events.BaseEventLoop.create_connection, argparse.HelpFormatter._format_usage):
    show(function.__name__, function.__code__)

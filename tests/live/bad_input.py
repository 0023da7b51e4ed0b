# SPDX-License-Identifier: Apache-2.0
"""Runs gcause on bad input and in bad moments, for real, and checks what it says.

    python3 tests/live/bad_input.py --gcause build/gcause [--only TEXT]

Prints one row per case: the input, the exit code, and what stood on standard error. Exits with 0
only if every row holds. Needs root and a kernel that gcause can use; what else is missing (pyenv,
strip, setcap) is a printed and counted skip. Needs nothing but bad_input_rows.py and
bad_input_tools.py beside it, so that it runs on any machine to which they were copied.
"""
import argparse
import os
import shutil
import sys
import tempfile

from bad_input_rows import Bench
from bad_input_tools import Broken, Skip


def cases(bench):
    """Input as the table names it, and what runs it."""
    pid = str(os.getpid())
    wrong = [
        ("no subcommand",),
        ("an unknown subcommand", "frobnicate"),
        ("an unknown option", "record", "-p", pid, "--frobnicate"),
        ("record without a target", "record"),
        ("record with two targets", "record", "-p", pid, "--", "true"),
        ("a PID that is no number", "record", "-p", "abc"),
        ("PID 0", "record", "-p", "0"),
        ("an option without its value", "record", "-p"),
        ("a format that is none", "record", "-p", pid, "-f", "xml"),
        ("budget: abc", "record", "-p", pid, "-b", "abc"),
        ("budget: 5 parsecs", "record", "-p", pid, "-b", "5parsecs"),
        ("budget: 0", "record", "-p", pid, "-b", "0"),
        ("budget: -1s", "record", "-p", pid, "--budget=-1s"),
        ("duration: empty", "record", "-p", pid, "-d", ""),
        ("duration: 1e9", "record", "-p", pid, "-d", "1e9"),
        ("duration: 9999999999h", "record", "-p", pid, "-d", "9999999999h"),
        ("a ring of 100 KiB", "record", "-p", pid, "--ring-size", "100"),
        ("report without a recording", "report"),
        ("report with a bad budget", "report", "x.gcause", "-b", "soon"),
    ]
    rows = [
        ("no such PID", bench.no_such_pid),
        ("a zombie", bench.zombie),
        ("a kernel thread", bench.kernel_thread),
        ("a thread's ID", bench.thread_id),
        ("not a Python process (sleep)", bench.not_python),
        ("a CPython without any trace of its collector", bench.stripped_python),
        ("another user's process, no rights", bench.other_user),
        ("root without CAP_BPF", bench.without_bpf),
        ("root without CAP_PERFMON", bench.without_perfmon),
        ("root without CAP_SYS_PTRACE", bench.without_ptrace),
        ("the capabilities of the hint, no root", bench.hint_of_capabilities),
        ("no BTF", bench.no_btf),
        ("exit during the attach", bench.exit_during_attach),
        ("-- a command that ends at once", bench.command_ends_at_once),
        ("exit during the recording", bench.exit_while_recording),
        ("SIGKILL of the target", bench.killed_while_recording),
        ("-o in a missing folder", bench.missing_folder),
        ("-f text -o /dev/full", lambda: bench.full_disk("text")),
        ("-f jsonl -o /dev/full", lambda: bench.full_disk("jsonl")),
        ("-f gcause -o /dev/full", lambda: bench.full_disk("gcause")),
        ("-o /dev/full without -d", bench.full_disk_without_end),
        ("report -o /dev/full", bench.report_to_full_disk),
        ("record -d 2s | head -1", bench.closed_pipe_with_end),
        ("record | head -1", bench.closed_pipe_without_end),
        ("report X -o X", bench.report_onto_itself),
        ("a recording that is cut off", bench.truncated_recording),
        ("a recording of a newer version", bench.newer_recording),
        ("not a recording", bench.no_recording),
        ("a missing recording", bench.missing_recording),
        ("damaged recordings", bench.damaged_recording),
        ("-- no-such-program", bench.command_not_found),
        ("SIGINT", bench.interrupt),
        ("SIGTERM", bench.terminate),
        ("SIGINT during the attach", bench.interrupt_while_attaching),
        ("SIGINT during -- sleep 30", bench.interrupt_while_waiting_for_python),
        ("SIGKILL of gcause", bench.killed_gcause),
    ]
    rows += [(name, lambda words=words: bench.wrong(*words)) for name, *words in wrong]
    return rows


def shorten(text, width):
    return text if len(text) <= width else text[:width - 3] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gcause", required=True, help="the binary to test")
    parser.add_argument("--only", default="", help="only the rows whose input contains this text")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bad_input: root is needed, to attach and to take rights away")
    folder = tempfile.mkdtemp(prefix="gcause-bad-input-")
    broken, skipped, held = [], [], 0
    print("%-37s | %-4s | %s" % ("input", "exit", "standard error"))
    try:
        for name, case in cases(Bench(args.gcause, folder)):
            if args.only not in name:
                continue
            try:
                result = case()
                held += 1
                code, lines = str(result.code), result.lines or ["(nothing)"]
            except Skip as skip:
                skipped.append(name)
                code, lines = "skip", [str(skip)]
            except Broken as error:
                broken.append(name)
                code, lines = "FAIL", [str(error)]
            for number, line in enumerate(lines):
                left = (name, code) if number == 0 else ("", "")
                print("%-37s | %-4s | %s" % (*left, shorten(line, 600 if code == "FAIL" else 150)),
                      flush=True)
    finally:
        if args.keep:
            print("kept:", folder)
        else:
            shutil.rmtree(folder)
    print("\n%d rows hold, %d do not, %d were skipped" % (held, len(broken), len(skipped)))
    for name in broken:
        print("  FAIL", name)
    for name in skipped:
        print("  skip", name)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""What gcause says where rights or kernel features are missing, and that it works with what it asks for.

Each cell runs `gcause doctor` and `gcause record` on one process under the rights or in the mount namespace
that it names. A cell that works counts ten collections; one that fails ends with 1 and two lines on standard
error that name what is missing and the remedy, from both commands alike. No cell leaves a breakpoint in the
target. Needs root and a kernel with BTF.
"""
import argparse
import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys

from attach_tools import check, full_pauses, Gcause, image, Overlay, probes_in, run_rows, Skip, Target

# linux/capability.h
DAC_READ_SEARCH, SYS_PTRACE, PERFMON, BPF, CHECKPOINT_RESTORE = 2, 19, 38, 39, 40
NEEDED = (BPF, PERFMON, SYS_PTRACE)
NOBODY = 65534
COLLECTIONS = 10
MEMLOCK = 64 << 10


def nobody_with(capabilities, memlock=None):
    """For preexec_fn: another user with just these capabilities, which survive exec."""
    def before_exec():
        import resource
        libc = ctypes.CDLL(None, use_errno=True)
        if memlock is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (memlock, memlock))
        ok = libc.prctl(8, 1, 0, 0, 0) == 0  # PR_SET_KEEPCAPS
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        bits = sum(1 << capability for capability in capabilities)
        words = [bits & 0xffffffff] * 3 + [bits >> 32] * 3
        header = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3
        ok = ok and libc.capset(header, struct.pack("6I", *words)) == 0
        for capability in capabilities:  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE
            ok = ok and libc.prctl(47, 2, capability, 0, 0) == 0
        if not ok:
            os._exit(126)
    return before_exec


def mounts(*commands):
    """A prefix that runs gcause in a mount namespace in which these commands were run."""
    script = " && ".join(commands) + " || exit 99; exec \"$@\""
    return ["unshare", "-m", "sh", "-c", script, "sh"]


class Cells:
    def __init__(self, gcause, python):
        self.source, self.python = gcause, python

    def prepare(self, folder):
        # A place that every user can reach.
        self.gcause = os.path.join(folder, "gcause")
        shutil.copy(self.source, self.gcause)
        os.chmod(self.gcause, 0o755)

    def works(self, target, prefix=(), **kwargs):
        told = subprocess.run([*prefix, self.gcause, "doctor", "-p", str(target.pid)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, **kwargs)
        if told.returncode == 99:
            raise Skip("the mounts of this cell cannot be made: " + told.stderr.strip())
        check(told.returncode == 0, "doctor ended with %d: %s", told.returncode, told.stderr)
        with Gcause(self.gcause, target.pid, prefix=prefix, **kwargs) as recording:
            target.do("collect", COLLECTIONS)
            objects = recording.stop()
        counts = full_pauses(objects)
        check(counts == {target.pid: COLLECTIONS}, "%d collections, seen: %r", COLLECTIONS, counts)
        self.left_alone(target)
        return "works"

    def fails(self, target, *patterns, prefix=(), **kwargs):
        for command in ("doctor", "record"):
            options = [] if command == "doctor" else ["-d", "1s"]
            result = subprocess.run([*prefix, self.gcause, command, "-p", str(target.pid), *options],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
            if result.returncode == 99:
                raise Skip("the mounts of this cell cannot be made: " + result.stderr.strip())
            lines = result.stderr.splitlines()
            check(result.returncode == 1 and len(lines) == 2 and lines[0].startswith("gcause: ")
                  and lines[1].startswith("  hint: "), "%s: %d, %r", command, result.returncode, lines)
            for pattern in patterns:
                check(re.search(pattern, "\n".join(lines)), "%s: nothing like /%s/ in %r", command, pattern, lines)
        self.left_alone(target)
        return lines[0][len("gcause: "):]

    def left_alone(self, target):
        check(probes_in(target.pid) == 0, "breakpoints stayed in the target")
        target.do("collect", 1)

    # ---- rights

    def none(self, folder):
        with Target([self.python]) as target:
            return self.fails(target, r"missing .*CAP_BPF", r"missing .*CAP_PERFMON", r"hint: .*cap_sys_ptrace",
                              preexec_fn=nobody_with(()))

    def load_only(self, folder):
        with Target([self.python]) as target:
            return self.fails(target, r"CAP_SYS_PTRACE", preexec_fn=nobody_with((BPF, PERFMON)))

    def load_only_own(self, folder):
        with Target([self.python], preexec_fn=nobody_with(())) as target:
            return self.works(target, preexec_fn=nobody_with((BPF, PERFMON)))

    def no_perfmon(self, folder):
        with Target([self.python]) as target:
            return self.fails(target, r"missing .*CAP_PERFMON", preexec_fn=nobody_with((BPF, SYS_PTRACE)))

    def with_ptrace(self, folder):
        with Target([self.python]) as target:
            return self.works(target, preexec_fn=nobody_with(NEEDED))

    def with_ptrace_filtered(self, folder):
        with Target([self.python]) as target:
            target.do("seccomp")
            return self.works(target, preexec_fn=nobody_with(NEEDED))

    def replaced(self, folder, capabilities, works):
        path = os.path.join(folder, "python3")
        shutil.copy(os.path.realpath(self.python), path)
        with Target([path]) as target:
            os.unlink(path)
            shutil.copy("/bin/sleep", path)
            if works:
                return self.works(target, preexec_fn=nobody_with(capabilities))
            return self.fails(target, re.escape(path), r"not allowed", r"hint: .*CAP_CHECKPOINT_RESTORE",
                              preexec_fn=nobody_with(capabilities))

    def replaced_without(self, folder):
        return self.replaced(folder, NEEDED, False)

    def replaced_with(self, folder):
        return self.replaced(folder, NEEDED + (CHECKPOINT_RESTORE, DAC_READ_SEARCH), True)

    def on_overlayfs(self, folder):
        """Where stat tells another device than maps, and the mapping itself cannot be opened."""
        with Overlay(folder, "a", image()[0]) as place:
            with Target(place.command("/usr/bin/python3")) as target:
                return self.works(target, preexec_fn=nobody_with(NEEDED))

    def little_locked_memory(self, folder):
        with Target([self.python]) as target:
            return self.works(target, preexec_fn=nobody_with(NEEDED, MEMLOCK))

    def hidden_proc(self, folder):
        prefix = mounts("mount -t proc -o hidepid=invisible proc /proc") + BECOME
        with Target([self.python]) as target:
            return self.fails(target, r"no process %d" % target.pid, r"hint: .*hidepid", prefix=prefix)

    def without_multi(self, folder):
        """On kernels whose perf events want CAP_SYS_ADMIN for a probe, the remedy names it."""
        with Target([self.python]) as target:
            result = subprocess.run([self.gcause, "record", "-p", str(target.pid), "-d", "100ms", "--without",
                                     "uprobe_multi"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    preexec_fn=nobody_with(NEEDED))
            said = result.stderr.splitlines()
            check(result.returncode == 0 or "CAP_SYS_ADMIN" in said[-1], "%d: %r", result.returncode, said)
            self.left_alone(target)
        return "works" if result.returncode == 0 else said[0][len("gcause: "):]

    # ---- kernel features

    def no_btf(self, folder):
        empty = os.path.join(folder, "empty")
        open(empty, "w").close()
        with Target([self.python]) as target:
            return self.fails(target, r"/sys/kernel/btf/vmlinux", r"hint: .*CONFIG_DEBUG_INFO_BTF",
                              prefix=mounts("mount --bind %s /sys/kernel/btf/vmlinux" % empty))

    def no_uprobes(self, folder):
        with Target([self.python]) as target:
            return self.fails(target, r"event_source/devices/uprobe", r"hint: .*CONFIG_UPROBE_EVENTS",
                              prefix=mounts("mount -t tmpfs none /sys/bus/event_source/devices"))

    def lockdown(self, mode):
        text = {"confidentiality": "none integrity [confidentiality]",
                "integrity": "none [integrity] confidentiality"}
        return mounts("mount -t tmpfs none /sys/kernel/security",
                      "echo '%s' > /sys/kernel/security/lockdown" % text[mode])

    def told_confidentiality(self, folder):
        with Target([self.python]) as target:
            return self.fails(target, r"lockdown says confidentiality", r"hint: .*lockdown=integrity",
                              prefix=self.lockdown("confidentiality"))

    def told_integrity(self, folder):
        with Target([self.python]) as target:
            return self.works(target, prefix=self.lockdown("integrity"))

    def no_tracefs(self, folder):
        with Target([self.python]) as target:
            return self.works(target, prefix=mounts(
                "for at in /sys/kernel/tracing /sys/kernel/debug; do "
                "if [ -d $at ]; then mount -t tmpfs none $at || exit 99; fi; done"))


# A prefix that takes all rights but those to load programs.
BECOME = [sys.executable, os.path.abspath(__file__), "--become"]


def main():
    if sys.argv[1:2] == ["--become"]:
        nobody_with((BPF, PERFMON))()
        os.execvp(sys.argv[2], sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that every user can run")
    parser.add_argument("--only")
    args = parser.parse_args()
    cells = Cells(os.path.abspath(args.gcause), args.python)
    table = (
        ("no capabilities", cells.none),
        ("CAP_BPF, CAP_PERFMON; root's process", cells.load_only),
        ("CAP_BPF, CAP_PERFMON; own process", cells.load_only_own),
        ("CAP_BPF, CAP_SYS_PTRACE", cells.no_perfmon),
        ("the three", cells.with_ptrace),
        ("the three; a seccomp filter in the target", cells.with_ptrace_filtered),
        ("the three; executable replaced", cells.replaced_without),
        ("and the two that are named; the same", cells.replaced_with),
        ("the three; a container on overlayfs", cells.on_overlayfs),
        ("the three; 64 KiB of locked memory", cells.little_locked_memory),
        ("the three; without uprobe_multi", cells.without_multi),
        ("CAP_BPF, CAP_PERFMON; /proc with hidepid", cells.hidden_proc),
        ("no kernel BTF", cells.no_btf),
        ("no uprobe events", cells.no_uprobes),
        ("lockdown told as confidentiality", cells.told_confidentiality),
        ("lockdown told as integrity", cells.told_integrity),
        ("tracefs not mounted", cells.no_tracefs),
    )

    def cell(function):
        def run(folder):
            cells.prepare(folder)
            return function(folder)
        return run

    run_rows([(name, cell(function)) for name, function in table], args.only)


if __name__ == "__main__":
    main()

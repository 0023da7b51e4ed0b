# SPDX-License-Identifier: Apache-2.0
"""The rows of bad_input.py: one method of Bench each."""
import glob
import json
import os
import random
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time

from bad_input_tools import (become_nobody, Broken, check, drop, end_of, ENDED_BEFORE,
                             expect_complete, expect_failure, json_lines, Recording, RECORDING,
                             Run, run, Skip, Target, wait_until_started)

# linux/capability.h
CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 19, 21, 38, 39


class Bench:
    """The cases. Each returns the run to show, or a text, and raises Broken or Skip."""

    def __init__(self, gcause, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        # A place that every user can reach, and one binary whatever others rebuild meanwhile.
        self.gcause = os.path.join(folder, "gcause")
        shutil.copy(gcause, self.gcause)
        os.chmod(self.gcause, 0o755)
        self._recording = None

    def record(self, pid, *options, **kwargs):
        return run([self.gcause, "record", "-p", str(pid), *options], **kwargs)

    def path(self, name, content=b""):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def recording(self):
        """The bytes of a good recording with three pauses, made once."""
        if self._recording is None:
            path = os.path.join(self.folder, "good.gcause")
            with Target() as target:
                recording = Recording(self, target, "-f", "gcause", "-o", path)
                for _ in range(3):
                    target.do("collect")
                recording.end(signal.SIGINT)
            with open(path, "rb") as file:
                self._recording = file.read()
        return self._recording

    # ---- what it is pointed at

    def no_such_pid(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        result = self.record(gone.pid)
        expect_failure(result, 1, r"no process %d" % gone.pid)
        return result

    def zombie(self):
        child = subprocess.Popen(["true"])
        time.sleep(0.3)
        result = self.record(child.pid)
        child.wait()
        expect_failure(result, 1, str(child.pid))
        return result

    def kernel_thread(self):
        result = self.record(2)
        expect_failure(result, 1, r"kernel thread")
        return result

    def thread_id(self):
        """A thread has a folder in /proc too, but it is the process that is meant."""
        program = ("import threading, time; t = threading.Thread(target=time.sleep, args=(60,)); "
                   "t.start(); print(t.native_id, flush=True)")
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                              text=True) as child:
            result = self.record(int(child.stdout.readline()), "-d", "1s")
            child.kill()
        expect_failure(result, 1, r"\bthread\b", r"\b%d\b" % child.pid)
        return result

    def not_python(self):
        with subprocess.Popen(["sleep", "60"]) as child:
            time.sleep(0.1)
            result = self.record(child.pid)
            child.kill()
        expect_failure(result, 1, r"not a CPython process", str(child.pid))
        return result

    def stripped_python(self):
        strip = shutil.which("strip")
        if not strip:
            raise Skip("no strip (binutils)")
        root = os.environ.get("PYENV_ROOT")
        if not root and shutil.which("pyenv"):
            root = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, text=True).stdout.strip()
        for python in sorted(glob.glob(os.path.join(root or "/nonexistent", "versions", "3.*"))):
            libraries = glob.glob(os.path.join(python, "lib", "libpython3.*.so.1.0"))
            if libraries:
                break
        else:
            raise Skip("no pyenv Python with a shared libpython (PYENV_ROOT, pyenv root)")
        folder = os.path.join(self.folder, "stripped")
        os.mkdir(folder)
        stripped = os.path.join(folder, os.path.basename(libraries[0]))
        subprocess.run([strip, "--strip-all", "-o", stripped, libraries[0]], check=True)
        # Stripped alone it is found by the text that its collector prints.
        with open(stripped, "rb") as library:
            contents = library.read()
        text = b"gc: collecting generation"
        if text not in contents:
            raise Skip("%s does not hold the text %r" % (libraries[0], text))
        with open(stripped, "wb") as library:
            library.write(contents.replace(text, b"x" * len(text)))
        environment = dict(os.environ, LD_LIBRARY_PATH=folder)
        with Target([os.path.join(python, "bin", "python3")], env=environment) as target:
            with open("/proc/%d/maps" % target.pid) as maps:
                if stripped not in maps.read():
                    raise Skip("the Python at %s does not heed LD_LIBRARY_PATH" % python)
            result = self.record(target.pid)
            target.do("collect")
        expect_failure(result, 1, r"cannot find the collector", re.escape(stripped))
        return result

    # ---- what it may do

    def other_user(self):
        with Target() as target:
            result = self.record(target.pid, "-d", "1s", preexec_fn=become_nobody)
        # All of what this kernel asks for, as a cure that is not enough is none.
        expect_failure(result, 1, r"(?i)cap_bpf", r"(?i)cap_perfmon", r"(?i)cap_sys_ptrace")
        return result

    def without(self, name, *dropped):
        with Target() as target:
            result = self.record(target.pid, "-d", "1s", preexec_fn=drop(*dropped))
        expect_failure(result, 1, r"gcause: .*\b%s\b" % name, re.escape(os.uname().release))
        return result

    def without_bpf(self):
        return self.without("CAP_BPF", CAP_BPF, CAP_SYS_ADMIN)

    def without_perfmon(self):
        return self.without("CAP_PERFMON", CAP_PERFMON, CAP_SYS_ADMIN)

    def without_ptrace(self):
        # The target has more capabilities than gcause, so looking at it takes CAP_SYS_PTRACE.
        with Target() as target:
            result = self.record(target.pid, "-d", "1s",
                                 preexec_fn=drop(CAP_SYS_PTRACE, CAP_SYS_ADMIN))
        expect_failure(result, 1, r"CAP_SYS_PTRACE")
        return result

    def hint_of_capabilities(self):
        """The three capabilities of the hint are enough, for a user who has nothing else."""
        setcap = shutil.which("setcap") or "/usr/sbin/setcap"
        if not os.path.exists(setcap):
            raise Skip("no setcap (libcap2-bin)")
        capable = os.path.join(self.folder, "gcause-setcap")
        shutil.copy(self.gcause, capable)
        if subprocess.run([setcap, "cap_bpf,cap_perfmon,cap_sys_ptrace+ep", capable],
                          stderr=subprocess.DEVNULL).returncode != 0:
            raise Skip("setcap does not work on " + self.folder)
        with Target([python_for_everybody()]) as target:
            process = subprocess.Popen([capable, "record", "-p", str(target.pid), "-f", "jsonl"],
                                       preexec_fn=become_nobody, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            first = process.stderr.readline().decode().rstrip("\n")
            if RECORDING.match(first):
                target.do("collect")
                process.send_signal(signal.SIGINT)
            result = end_of(process)
            result.lines.insert(0, first)
        check(result.code == 0, "exit code %s: %r" % (result.code, result.lines))
        expect_complete(result.out, 1)
        return result

    def no_btf(self):
        empty = self.path("empty")
        with Target() as target:
            script = "mount --bind %s /sys/kernel/btf/vmlinux || exit 99; exec %s record -p %d" % (
                shlex.quote(empty), shlex.quote(self.gcause), target.pid)
            result = run(["unshare", "-m", "sh", "-c", script])
        if result.code == 99:
            raise Skip("no bind mount here: %r" % result.lines)
        expect_failure(result, 1, r"/sys/kernel/btf/vmlinux", r"CONFIG_DEBUG_INFO_BTF")
        return result

    # ---- targets that end

    def exit_during_attach(self):
        """The target ends at many moments between the start of gcause and its announcement."""
        outcomes, bad = {}, []
        for milliseconds in list(range(50, 301, 25)) + [350, 400, 500, 600, 800]:
            with Target() as target:
                process = subprocess.Popen(
                    [self.gcause, "record", "-p", str(target.pid), "-f", "jsonl"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_until_started(process)
                target.send("exit %f" % (milliseconds / 1000))
                reaper = target.reap_when_ended()
                result = end_of(process)
                reaper.join()
            recorded = len(result.lines) == 1 and RECORDING.match(result.lines[0])
            ended = len(result.lines) == 1 and ENDED_BEFORE.match(result.lines[0])
            if result.code != 0 or not (recorded or ended):
                bad.append("ended after %d ms: exit code %s: %r" % (milliseconds, result.code,
                                                                    result.lines))
                continue
            objects = json_lines(result.out)
            check(ended or objects[-1]["type"] == "summary", "no summary: %r" % result.out[-80:])
            kind = "recorded" if recorded else "ended before every probe was active"
            outcomes[kind] = outcomes.get(kind, 0) + 1
        said = ", ".join("%s: %d times" % outcome for outcome in sorted(outcomes.items()))
        check(not bad, "%s; %d times not: %s" % (said, len(bad), "; ".join(bad)))
        return Run(0, b"", said.encode())

    def command_ends_at_once(self):
        result = None
        for program in ("pass", "import gc; gc.collect()", "import time; time.sleep(.1)",
                        "import os; os.kill(os.getpid(), 9)"):
            result = run([self.gcause, "record", "-f", "jsonl", "--", sys.executable, "-c", program])
            check(result.code == 0, "%s: exit code %s: %r" % (program, result.code, result.lines))
            check(len(result.lines) == 1 and (RECORDING.match(result.lines[0]) or
                                              ENDED_BEFORE.match(result.lines[0])),
                  "%s: standard error: %r" % (program, result.lines))
            json_lines(result.out)
        return result

    def end_while_recording(self, ending):
        with Target() as target:
            recording = Recording(self, target, "-f", "jsonl")
            for _ in range(3):
                target.do("collect")
            ending(target)
            reaper = target.reap_when_ended()
            result = recording.end()
            reaper.join()
        check(result.code == 0, "exit code %s: %r" % (result.code, result.lines))
        check(len(result.lines) == 1, "standard error: %r" % result.lines)
        expect_complete(result.out, 3)
        return result

    def exit_while_recording(self):
        return self.end_while_recording(lambda target: target.send("exit"))

    def killed_while_recording(self):
        return self.end_while_recording(lambda target: target.process.kill())

    # ---- where the output goes

    def missing_folder(self):
        results = []
        for kind in ("text", "jsonl", "gcause"):
            with Target() as target:
                results.append(self.record(target.pid, "-d", "1s", "-f", kind, "-o",
                                           os.path.join(self.folder, "missing", "x")))
            expect_failure(results[-1], 1, r"missing/x", r"No such file or directory")
        return results[-1]

    def full_disk(self, kind):
        with Target() as target:
            result = self.record(target.pid, "-d", "1s", "-f", kind, "-o", "/dev/full")
        expect_failure(result, 1, r"/dev/full", r"No space left on device", announced=True)
        return result

    def full_disk_without_end(self):
        """A recording that can write nothing any more has no reason to go on until Ctrl-C."""
        with Target() as target:
            result = self.record(target.pid, "-f", "jsonl", "-o", "/dev/full", seconds=6)
        expect_failure(result, 1, r"No space left on device", announced=True)
        return result

    def report_to_full_disk(self):
        path = self.path("full.gcause", self.recording())
        result = run([self.gcause, "report", path, "-o", "/dev/full"])
        expect_failure(result, 1, r"No space left on device")
        return result

    def closed_pipe(self, *options):
        with Target() as target:
            process = subprocess.Popen(
                [self.gcause, "record", "-p", str(target.pid), "-f", "jsonl", *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            head = process.stdout.readline()
            process.stdout.close()
            target.do("collect")
            try:
                process.wait(timeout=8)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Broken("still records 8 s after its reader went away")
            finally:
                err = process.stderr.read()
                process.stderr.close()
        result = Run(process.returncode, head, err)
        check(json.loads(head)["type"] == "session", "no first line")
        if result.code != 0:
            expect_failure(result, 1, r"Broken pipe", announced=True)
        return result

    def closed_pipe_with_end(self):
        return self.closed_pipe("-d", "2s")

    def closed_pipe_without_end(self):
        return self.closed_pipe()

    # ---- recordings

    def report(self, path, *options):
        return run([self.gcause, "report", path, "-f", "jsonl", *options])

    def truncated_recording(self):
        whole = self.recording()
        result = None
        for length in (8, 10, 12, 15, len(whole) // 3, len(whole) // 2, len(whole) - 20,
                       len(whole) - 5, len(whole) - 1):
            result = self.report(self.path("cut.gcause", whole[:length]))
            expect_failure(result, 1, r"cut off at byte \d+")
            objects = json_lines(result.out)
        types = [o["type"] for o in objects]
        check(types[0] == "session" and types.count("pause") >= 3 and types[-1] == "summary",
              "what was whole is not on standard output: %r" % types)
        return result

    def report_onto_itself(self):
        path = self.path("itself.gcause", self.recording())
        result = run([self.gcause, "report", path, "-f", "jsonl", "-o", path])
        with open(path, "rb") as file:
            check(file.read() == self.recording(), "the recording is gone: exit code %d, %r" % (
                result.code, result.lines))
        expect_failure(result, 1)
        return result

    def newer_recording(self):
        whole = self.recording()
        result = self.report(self.path("newer.gcause", whole[:8] + struct.pack("<I", 99) + whole[12:]))
        expect_failure(result, 1, r"later gcause", r"\b99\b")
        check(result.out == "", "output: " + result.out[:80])
        return result

    def no_recording(self):
        result = None
        for content in (b"", b"{}\n", b"\x7fELF" + bytes(100), os.urandom(5000)):
            result = self.report(self.path("other.gcause", content))
            expect_failure(result, 1, r"not a recording")
        expect_failure(self.report(self.folder), 1)
        return result

    def missing_recording(self):
        result = self.report(os.path.join(self.folder, "missing.gcause"))
        expect_failure(result, 1, r"No such file or directory")
        return result

    def damaged_recording(self):
        """Flipped bytes: a report or two lines, never a crash."""
        whole = self.recording()
        chance = random.Random(1)
        result = None
        bad = []
        for attempt in range(120):
            damaged = bytearray(whole)
            for _ in range(chance.choice((1, 1, 4, 32))):
                damaged[chance.randrange(12, len(damaged))] = chance.randrange(256)
            path = self.path("damaged.gcause", bytes(damaged))
            result = run([self.gcause, "report", path, "-f", ("jsonl", "text")[attempt % 2]])
            if result.code == 1:
                expect_failure(result, 1)
            elif result.code != 0 or result.lines:
                kept = self.path("damaged-%d.gcause" % attempt, bytes(damaged))
                bad.append("%s: exit code %d %r" % (os.path.basename(kept), result.code,
                                                    result.lines))
        check(not bad, "%d of 120 damaged recordings: %s" % (len(bad), bad[0] if bad else ""))
        return Run(result.code, b"", b"120 damaged recordings: exit code 0 or 1, no crash")

    # ---- the command line

    def wrong(self, *arguments):
        result = run([self.gcause, *arguments])
        expect_failure(result, 2)
        check(result.out == "", "standard output: %r" % result.out[:80])
        return result

    def command_not_found(self):
        result = run([self.gcause, "record", "--", "no-such-program"])
        expect_failure(result, 1, r"no-such-program")
        return result

    # ---- signals

    def stop_by(self, number):
        with Target() as target:
            recording = Recording(self, target, "-f", "jsonl")
            for _ in range(3):
                target.do("collect")
            result = recording.end(number)
            target.do("collect")
        check(result.code == 0, "exit code %s: %r" % (result.code, result.lines))
        check(len(result.lines) == 1, "standard error: %r" % result.lines)
        expect_complete(result.out, 3)
        return result

    def interrupt(self):
        return self.stop_by(signal.SIGINT)

    def terminate(self):
        return self.stop_by(signal.SIGTERM)

    def interrupt_while_attaching(self):
        result = None
        for milliseconds in (0, 100, 200, 300, 400):
            with Target() as target:
                process = subprocess.Popen(
                    [self.gcause, "record", "-p", str(target.pid), "-f", "jsonl"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_until_started(process)
                time.sleep(milliseconds / 1000)
                process.send_signal(signal.SIGINT)
                result = end_of(process)
                target.do("collect")
            check(result.code == 0, "after %d ms: exit code %s" % (milliseconds, result.code))
            check(len(result.lines) <= 1, "standard error: %r" % result.lines)
        return result

    def interrupt_while_waiting_for_python(self):
        """The command is no Python yet, and may never be: Ctrl-C has to be heard meanwhile."""
        # Not pipes: the command has them too, and would keep them open.
        said = self.path("said")
        with open(said, "wb") as out:
            process = subprocess.Popen([self.gcause, "record", "--", "sleep", "30"],
                                       stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True)
        time.sleep(1)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=15)
        finally:
            seconds = time.monotonic() - start
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        with open(said, "rb") as file:
            result = Run(process.returncode, b"", file.read())
        check(seconds < 2, "ended %.1f s after SIGINT, with exit code %d: %r" % (
            seconds, result.code, result.lines))
        return result

    def killed_gcause(self):
        """SIGKILL leaves nothing behind: the very links and programs of this gcause are gone."""
        with Target() as target:
            before = bpf_objects()
            recording = Recording(self, target, "-f", "gcause", "-o",
                                  os.path.join(self.folder, "killed.gcause"))
            target.do("collect")
            own = own_bpf_objects(recording.process.pid)
            check(own["link"] and own["prog"], "no link found: the check is blind")
            recording.process.kill()
            end_of(recording.process)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                after = bpf_objects()
                left = {kind: own[kind] & after[kind] for kind in own}
                if not any(left.values()):
                    break
                time.sleep(0.1)
            check(not any(left.values()), "left behind: %r" % left)
            for _ in range(3):
                target.do("collect")
            count = lambda objects: "%d links, %d programs" % (len(objects["link"]),
                                                              len(objects["prog"]))
            return Run(-signal.SIGKILL, b"", ("%s before, %s of this gcause, %s after; target answers"
                                              % (count(before), count(own), count(after))).encode())


def python_for_everybody():
    """A Python whose files every user can reach; an interpreter under /root is none."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        real = os.path.realpath(python)
        folders = os.path.dirname(real).split("/")
        if os.path.exists(real) and all(os.stat("/".join(folders[:n]) or "/").st_mode & 0o001
                                        for n in range(1, len(folders) + 1)):
            return python
    raise Skip("no Python outside of root's own folders")


def bpf_objects():
    """The ids of all BPF links and programs of the host."""
    tool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    if not os.path.exists(tool):
        raise Skip("no bpftool")
    ids = {}
    for kind in ("link", "prog"):
        listed = subprocess.run([tool, kind, "list", "-j"], stdout=subprocess.PIPE, check=True)
        ids[kind] = {item["id"] for item in json.loads(listed.stdout)}
    return ids


def own_bpf_objects(pid):
    """The ids of the links and programs that a process holds. Others may use BPF beside us, so
    counting alone would not do."""
    ids = {"link": set(), "prog": set()}
    for path in glob.glob("/proc/%d/fdinfo/*" % pid):
        with open(path) as file:
            for key, value in re.findall(r"^(link|prog)_id:\s+(\d+)", file.read(), re.M):
                ids[key].add(int(value))
    return ids

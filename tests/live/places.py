# SPDX-License-Identifier: Apache-2.0
"""Targets in the places where processes live: containers with one path for several files, PID namespaces,
files deleted or replaced on disk, embedded interpreters, prefork servers, short lives; and other languages.

Each row counts full collections exactly. Needs root, BTF, overlayfs and a C compiler; a root file system of
Debian in the cache (scripts/interpreters makes it) is used as the container's.
"""
import argparse
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from attach_tools import (Broken, check, children, CHUNKS, full_pauses, Gcause, image, last_descendant, method_of,
                          of_type, Origin, Overlay, probes_in, run_rows, Skip, Target)

COLLECTIONS = 10
APPSERVER = r"""
#include <Python.h>
int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
"""
UWSGI = """
import gc
def application(environ, start_response):
    for _ in range(int(environ["QUERY_STRING"] or 0)):
        gc.collect()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]
gc.disable()
"""


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)


def count(objects, target_pid, wanted=COLLECTIONS):
    counts = full_pauses(objects)
    check(counts == {target_pid: wanted}, "%d collections of %d, seen: %r", wanted, target_pid, counts)


def ten(gcause, target, *options):
    """Attaches, collects, counts; also that no probe stays behind."""
    with Gcause(gcause, target.pid, *options) as recording:
        inside = probes_in(target.pid)
        target.do("collect", COLLECTIONS)
        objects = recording.stop()
    count(objects, target.pid)
    check(inside > 0, "no breakpoint in the target while it was recorded")
    check(probes_in(target.pid) == 0, "breakpoints stayed in the target")
    target.do("collect", 1)
    return method_of(objects)


class Rows:
    def __init__(self, gcause, python, other):
        self.gcause, self.python, self.other = os.path.abspath(gcause), python, other
        self.image, self.image_python = image()

    # ---- C42

    def same_path(self, folder):
        """Three files of one path: two containers of one image, and the host."""
        path = os.path.join(folder, "python3")
        shutil.copy(self.python, path)
        lower = os.path.join(folder, "lower")
        os.mkdir(lower)
        inside = os.path.join(lower, path[1:])
        os.makedirs(os.path.dirname(inside))
        shutil.copy(self.image_python, inside)
        layers = lower + ":" + self.image
        with Overlay(folder, "a", layers) as a, Overlay(folder, "b", layers) as b:
            with Target(a.command(path)) as one, Target(b.command(path)) as two, Target([path]) as host:
                check(one.own_pid == 1 and two.own_pid == 1, "not process 1 of their namespaces")
                with Gcause(self.gcause, one.pid, "-s") as recording:
                    for target in (one, two, host):
                        target.do("collect", COLLECTIONS)
                    check(probes_in(one.pid) > 0, "no breakpoint in the target")
                    check(probes_in(two.pid) == 0, "breakpoints in the other container")
                    check(probes_in(host.pid) == 0, "breakpoints in the host's process")
                    objects = recording.stop()
                count(objects, one.pid)
                check(probes_in(one.pid) == 0, "breakpoints stayed")
                version = of_type(objects, "process")[0]["python"]["version"]
                spaces = doctor(self.gcause, one.pid)["target"]["namespaces"]
                check(spaces == {"other_pid": True, "other_mount": True, "inner_pids": "1"}, "%r", spaces)
                return "%s, %s on overlayfs; host's at the same path untouched" % (version, method_of(objects))

    def container_removed(self, folder):
        """C54 (ii): the container goes while it is recorded."""
        with Overlay(folder, "a", self.image) as place:
            target = Target(place.command("/usr/bin/python3"))
            with target, Gcause(self.gcause, target.pid) as recording:
                target.do("collect", COLLECTIONS)
                target.process.kill()
                subprocess.run(["umount", "-l", place.root], check=True)
                recording.wait()
                check(recording.code == 0, "exit code %s: %r", recording.code, recording.lines)
                count(recording.objects, target.pid)
                check(recording.objects[-1]["type"] == "summary", "no summary")
        return "report written"

    def chrooted(self, folder):
        """In our mount namespace, with a root of its own: maps tell its paths as we see them."""
        with Overlay(folder, "a", self.image) as place:
            with Target(["chroot", place.root, "/usr/bin/python3"]) as target:
                return ten(self.gcause, target)

    def inside_container(self, folder):
        """gcause in a container that shares the PID namespace with its targets."""
        with Overlay(folder, "a", self.image) as place, Target([self.python]) as target:
            tools = os.path.join(place.root, "opt/gcause")
            os.makedirs(tools)
            shutil.copy(self.gcause, tools)
            for line in run(["ldd", self.gcause]).stdout.splitlines():
                found = re.search(r"=> (/\S+)", line)
                # The C library has to be that of the dynamic linker that starts gcause.
                if found and not re.search(r"/lib(c|m|pthread|dl|rt)\.so", found.group(1)):
                    shutil.copy(found.group(1), tools)
            script = ("mount -t proc none {0}/proc && mount --rbind /sys {0}/sys && "
                      "exec chroot {0} /usr/bin/env LD_LIBRARY_PATH=/opt/gcause \"$@\"").format(place.root)
            with Gcause("/opt/gcause/gcause", target.pid,
                        prefix=["unshare", "--mount", "sh", "-c", script, "sh"]) as recording:
                target.do("collect", COLLECTIONS)
                objects = recording.stop()
            count(objects, target.pid)
            return method_of(objects)

    # ---- C47

    def pid_namespaces(self, _):
        """One target seen from the host, from its own namespace and from one between; another process 1
        beside it."""
        nested = ["unshare", "--mount-proc", "--pid", "--fork", "--kill-child"]
        inner = nested + [self.python]
        with Target(nested + ["sh", "-c", "exec 3<&0; %s \"$@\" <&3 & wait" % " ".join(inner),
                              "sh"]) as target, Target(inner) as other:
            check(target.own_pid == 1 and other.own_pid == 1, "not process 1 of their namespaces")
            with open("/proc/%d/status" % target.pid) as lines:
                numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
            check(len(numbers) == 3, "NSpid is %r", numbers)
            between = last_descendant_above(target.pid)
            enter = {"host": ([], numbers[0]),
                     "between": (["nsenter", "-t", str(between), "-p", "-m"], numbers[1]),
                     "inside": (["nsenter", "-t", str(target.pid), "-p", "-m"], numbers[2])}
            for place, (prefix, pid) in enter.items():
                with Gcause(self.gcause, int(pid), prefix=prefix) as recording:
                    target.do("collect", COLLECTIONS)
                    other.do("collect", COLLECTIONS)
                    objects = recording.stop()
                try:
                    count(objects, int(pid))
                except Broken as why:
                    raise Broken("%s: %s" % (place, why))
            return "host %s, between %s, inside %s" % tuple(numbers)

    # ---- files

    def replaced_executable(self, folder):
        path = os.path.join(folder, "python3")
        shutil.copy(self.python, path)
        with Target([path]) as target:
            os.unlink(path)
            deleted = ten(self.gcause, target)
            shutil.copy("/bin/sleep", path)
            return "%s when deleted, %s when replaced" % (deleted, ten(self.gcause, target))

    def replaced_library(self, folder):
        """As an upgrade does it: a new file under the old name, the old one still mapped."""
        library = libpython_of(self.other)
        path = os.path.join(folder, os.path.basename(library))
        shutil.copy(library, path)
        with Target([self.other], env=dict(os.environ, LD_LIBRARY_PATH=folder)) as target:
            with open("/proc/%d/maps" % target.pid) as maps:
                check(path in maps.read(), "%s does not heed LD_LIBRARY_PATH", self.other)
            shutil.copy("/bin/sleep", path + ".new")
            os.rename(path + ".new", path)
            return ten(self.gcause, target)

    def odd_name(self, folder):
        """A newline and what looks like the kernel's escape of one."""
        told = []
        for name in ("two\nlines", "four\\012letters"):
            path = os.path.join(folder, name)
            shutil.copy(self.python, path)
            with Target([path]) as target:
                told.append(ten(self.gcause, target))
        return ", ".join(told)

    def linked(self, python, linkage):
        with Target([python]) as target:
            told = doctor(self.gcause, target.pid)["target"]["python"]["linkage"]
            check(told == linkage, "doctor says %s", told)
            return ten(self.gcause, target)

    def static(self, _):
        return self.linked(self.python, "static")

    def shared(self, _):
        return self.linked(self.other, "shared")

    def embedded(self, folder):
        """A program of another name with the interpreter in a library."""
        source, program = os.path.join(folder, "appserver.c"), os.path.join(folder, "appserver")
        with open(source, "w") as file:
            file.write(APPSERVER)
        home = os.path.dirname(os.path.dirname(os.path.realpath(self.other)))
        library = libpython_of(self.other)
        include = glob.glob(os.path.join(home, "include/python3.*"))[0]
        subprocess.run(["cc", "-o", program, source, "-I", include, library,
                        "-Wl,-rpath," + os.path.dirname(library)], check=True)
        with Target([program], env=dict(os.environ, PYTHONHOME=home)) as target:
            report = doctor(self.gcause, target.pid)["target"]
            check(report["python"]["linkage"] == "embedded-shared", "%r", report["python"])
            check(report["exe"] == program, "exe is %s", report["exe"])
            return ten(self.gcause, target)

    def uwsgi(self, folder):
        if not shutil.which("uwsgi"):
            raise Skip("no uwsgi (uwsgi-core, uwsgi-plugin-python3)")
        with open(os.path.join(folder, "app.py"), "w") as file:
            file.write(UWSGI)
        import socket
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            ["uwsgi", "--plugin", "python3", "--http-socket", "127.0.0.1:%d" % port, "--chdir", folder,
             "--wsgi", "app:application", "--die-on-term"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ask(port, 0)
            report = doctor(self.gcause, process.pid)["target"]
            check(report["python"]["linkage"].startswith("embedded"), "%r", report["python"])
            with Gcause(self.gcause, process.pid) as recording:
                ask(port, COLLECTIONS)
                objects = recording.stop()
            count(objects, process.pid)
            return "%s, %s" % (report["python"]["linkage"], method_of(objects))
        finally:
            process.kill()
            process.wait()

    # ---- C45

    def prefork(self, follow):
        with Origin() as origin, Target([self.python]) as target:
            pids = [int(target.do("fork", name)) for name in ("w1", "w2")]
            with Gcause(self.gcause, target.pid, "--chunks", *(["-s"] if follow else [])) as recording:
                pids += [int(target.do("fork", name)) for name in ("w3", "w4")]
                wait_for_followed(pids if follow else [])
                for name in ("w1", "w2", "w3", "w4"):
                    target.do("worker", name, "collect", 25)
                    target.do("worker", name, "stream", origin.url)
                target.do("kill", "w2")
                pids.append(int(target.do("fork", "w5")))
                wait_for_followed(pids[-1:] if follow else [])
                target.do("worker", "w5", "collect", 25)
                target.do("worker", "w5", "stream", origin.url)
                target.do("sleep", 0.3)
                objects = recording.stop()
            counts, chunks = full_pauses(objects), {}
            for stream in of_type(objects, "stream"):
                chunks[stream["pid"]] = chunks.get(stream["pid"], 0) + stream["chunks"]
            said = "".join(recording.lines)
            if not follow:
                check(counts == {} and chunks == {}, "pauses %r, chunks %r", counts, chunks)
                found = re.search(r"(\d+) child process\(es\) of pid %d were not followed" % target.pid, said)
                check(found and int(found.group(1)) == 5, "standard error says %r", said)
                return "none of 125; 5 children named"
            check(counts == {pid: 25 for pid in pids}, "collections %r of %r", counts, pids)
            check(chunks == {pid: CHUNKS for pid in pids}, "chunks %r of %r", chunks, pids)
            return "125 of 125 collections by worker, master 0"

    def prefork_followed(self, _):
        return self.prefork(True)

    def prefork_alone(self, _):
        return self.prefork(False)

    # ---- C54

    def short_life(self, _):
        outcomes = {}
        for _ in range(5):
            with Target([self.python]) as target:
                process = subprocess.Popen([self.gcause, "record", "-p", str(target.pid), "-f", "jsonl"],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(0.3)
                target.process.kill()
                target.process.wait()
                out, err = process.communicate(timeout=30)
            check(process.returncode == 0, "exit code %s: %s", process.returncode, err)
            objects = [json.loads(line) for line in out.splitlines()]
            word = "data" if "recording pid" in err else "ended before"
            check(word != "data" or objects[-1]["type"] == "summary", "no summary: %s", err)
            check(word == "data" or "ended before every probe was active" in err, "says %s", err)
            outcomes[word] = outcomes.get(word, 0) + 1
        return ", ".join("%s: %d" % pair for pair in sorted(outcomes.items()))

    # ---- the doctor

    def doctor_is_quick(self, folder):
        """The best of five, as the machine does other things as well."""
        times = []
        with Target([self.other]) as target:
            target.do("tls")
            target.do("seccomp")
            for _ in range(5):
                begin = time.monotonic()
                report = doctor(self.gcause, target.pid)
                times.append(time.monotonic() - begin)
        check(min(times) < 0.5, "%.0f ms", 1e3 * min(times))
        check(0 < report["target"]["search_ns"] < 1e9 * max(times), "search_ns %d", report["target"]["search_ns"])
        return "%.0f ms, of which the search took %.1f ms" % (1e3 * min(times),
                                                             report["target"]["search_ns"] / 1e6)

    # ---- other languages

    def refusal(self, command, name, object_name):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(1.0)
            pid = last_descendant(process.pid)
            results = [run([self.gcause, "record", "-p", str(pid), "-d", "1s"]),
                       run([self.gcause, "doctor", "-p", str(pid)])]
            process.kill()
        first = "gcause: process %d runs %s (%s), whose collector gcause does not follow" % (
            pid, name, object_name)
        for result in results:
            lines = result.stderr.splitlines()
            check(result.returncode == 1 and len(lines) == 2, "%s: %r", result.returncode, lines)
            check(lines[0] == first and lines[1].startswith("  hint: "), "%r", lines)
        return name

    def node(self, _):
        if not shutil.which("node"):
            raise Skip("no node")
        return self.refusal(["node", "-e", "setInterval(() => {}, 1000)"], "Node.js", "node")

    def java(self, folder):
        if not shutil.which("java"):
            raise Skip("no java")
        source = os.path.join(folder, "Wait.java")
        with open(source, "w") as file:
            file.write("class Wait { public static void main(String[] a) throws Exception "
                       "{ Thread.sleep(60000); } }\n")
        return self.refusal(["java", source], "a Java virtual machine (Java, Jython and others)", "libjvm.so")

    def stand_in(self, folder, name, runtime):
        path = os.path.join(folder, name)
        shutil.copy("/bin/sleep", path)
        if runtime == "Go":
            note = os.path.join(folder, "note")
            with open(note, "wb") as file:
                file.write(b"\xff Go buildinf:" + bytes(18))
            subprocess.run(["objcopy", "--add-section", ".go.buildinfo=" + note, path], check=True)
        return self.refusal([path, "60"], runtime, name)

    def old_python(self, _):
        root = os.environ.get("PYENV_ROOT", "/nonexistent")
        found = sorted(glob.glob(os.path.join(root, "versions/2.7.*/bin/python2.7")) +
                       glob.glob(os.path.join(root, "versions/3.6.*/bin/python3.6")))
        if not found:
            raise Skip("no CPython 2.7 or 3.6 of pyenv")
        told = []
        for python in found:
            process = subprocess.Popen([python, "-c", "import time; time.sleep(60)"])
            time.sleep(0.5)
            result = run([self.gcause, "record", "-p", str(process.pid), "-d", "1s"])
            process.kill()
            process.wait()
            check(result.returncode == 1 and "runs a CPython older than 3.7" in result.stderr, result.stderr)
            told.append(os.path.basename(python))
        return ", ".join(told)


def doctor(gcause, pid):
    result = run([gcause, "doctor", "-p", str(pid), "-f", "json"])
    check(result.returncode == 0, "doctor: %s", result.stderr)
    return json.loads(result.stdout)


def last_descendant_above(pid):
    """The parent's parent of a process: the shell that keeps the namespace between alive."""
    for _ in range(2):
        with open("/proc/%d/stat" % pid) as text:
            pid = int(text.read().rsplit(")", 1)[1].split()[1])
    return pid


def libpython_of(python):
    home = os.path.dirname(os.path.dirname(os.path.realpath(python)))
    found = glob.glob(os.path.join(home, "lib/libpython3.*.so.1.0"))
    if not found:
        raise Skip("%s has no libpython: give one of pyenv with --other" % python)
    return found[0]


def ask(port, collections):
    import urllib.request
    for attempt in range(50):
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/?%d" % (port, collections), timeout=30) as answer:
                check(answer.read() == b"done", "uwsgi's answer")
                return
        except OSError:
            check(attempt < 49, "uwsgi does not answer")
            time.sleep(0.2)


def wait_for_followed(pids):
    """Until gcause has its breakpoints in these processes."""
    deadline = time.monotonic() + 20
    for pid in pids:
        while probes_in(pid) == 0:
            check(time.monotonic() < deadline, "%d is not followed", pid)
            time.sleep(0.05)
    # The last of its probes, too: it announces a process when all are in.
    time.sleep(1.0 if pids else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True, help="a statically linked interpreter")
    parser.add_argument("--other", required=True, help="one with a libpython")
    parser.add_argument("--only")
    args = parser.parse_args()
    rows = Rows(args.gcause, os.path.realpath(args.python), os.path.realpath(args.other))
    names = ("same_path", "container_removed", "chrooted", "inside_container", "pid_namespaces",
             "replaced_executable", "replaced_library", "odd_name", "static", "shared", "embedded", "uwsgi",
             "prefork_followed", "prefork_alone", "short_life", "doctor_is_quick", "node", "java", "old_python")
    table = [(name.replace("_", " "), getattr(rows, name)) for name in names]
    for name, runtime in (("pypy3.11", "PyPy"), ("ruby3.1", "Ruby"), ("dotnet", ".NET"), ("server", "Go")):
        table.append(("refused: " + name,
                      lambda folder, n=name, r=runtime: rows.stand_in(folder, n, r)))
    run_rows(table, args.only)


if __name__ == "__main__":
    main()

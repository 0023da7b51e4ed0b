# SPDX-License-Identifier: Apache-2.0
"""TLS wherever it is in a process: every copy of a library, one that is loaded late, one inside of a program or a
module, with symbols and without; and what cannot be read is named, and timed by its records.

A row is a target that reads event streams of a server in this process. Compared are the streams, their chunks
(exactly), their gaps with the rhythm of the server, and what gcause says of connections that it cannot read.
Needs root and BTF, for some rows a C compiler with libssl-dev and libpython3-dev, or a root file system that
scripts/interpreters or scripts/lib/tls-root makes; a row without its need is a printed and counted skip.
"""
import argparse
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from attach_tools import check, of_type, run_rows, Skip
from tls_places_tools import HERE, Origin, Proxy, Recording, Target, TOP

MS = 1_000_000
NO_EVENTS = "no token stream was seen"


def chunks_of(objects, protocol="http/1.1"):
    """The number of chunks of each stream, in order of their begin."""
    streams = [o for o in of_type(objects, "stream") if o["protocol"] == protocol]
    return [o["chunks"] for o in sorted(streams, key=lambda o: o["begin_ns"])]


def expect_chunks(objects, wanted, tls=True):
    seen = [(o["chunks"], o["tls"]) for o in of_type(objects, "stream") if o["protocol"] == "http/1.1"]
    check(sorted(seen) == sorted((n, tls) for n in wanted), "streams of %r events, seen: %r", wanted, seen)


def built(command, what):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise Skip("cannot build %s: %s" % (what, (result.stdout.strip().splitlines() or ["?"])[0]))


class Rows:
    def __init__(self, gcause, python, folder):
        self.gcause, self.python, self.folder = os.path.abspath(gcause), python, folder
        self.cafile = os.path.join(folder, "ca.pem")
        self.origin = Origin(folder)
        self.modules = {}

    # ---- what the rows are made of

    def target(self, root=None, python=None, env=None):
        share = None
        if root:
            share = tempfile.mkdtemp(dir=self.folder)
            os.chmod(share, 0o755)
            shutil.copy(self.cafile, share)
        return Target(python or self.python, root, share, env)

    def record(self, target, *options):
        return Recording(self.gcause, target.pid, self.folder, *options)

    def ca_of(self, root):
        return "/mnt/ca.pem" if root else self.cafile

    def module(self, form):
        """A small shared object with OpenSSL inside: its symbols hidden; stripped; or without the names that its
        functions give themselves, as with TLS libraries that have none."""
        if form in self.modules:
            return self.modules[form]
        path = os.path.join(self.folder, "libclient-%s.so" % form)
        if form == "hidden":
            built(["cc", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", path,
                   os.path.join(HERE, "tls_places_fetch.c"), "-Wl,--exclude-libs,ALL", "-l:libssl.a",
                   "-l:libcrypto.a", "-ldl", "-lpthread"], "a module with a static OpenSSL (libssl-dev)")
        else:
            shutil.copy(self.module("hidden"), path)
            subprocess.run(["strip", "--strip-all", path], check=True)
        if form == "nameless":
            with open(path, "rb") as file:
                code = file.read()
            for name in (b"ssl_read_internal\0", b"ssl_write_internal\0"):
                code = code.replace(name, b"x" * (len(name) - 1) + b"\0")
            with open(path, "wb") as file:
                file.write(code)
        self.modules[form] = path
        return path

    def doctor(self, target):
        report = subprocess.run([self.gcause, "doctor", "-p", str(target.pid), "-f", "json"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout
        return json.loads(report)

    def libssl(self):
        found = sorted(glob.glob("/usr/lib/*/libssl.so.[0-9]*") + glob.glob("/lib/*/libssl.so.[0-9]*"))
        if not found:
            raise Skip("no libssl on this machine")
        return os.path.realpath(found[-1])

    # ---- C36, C37: the library that CPython itself uses

    def interpreter(self, entry):
        """20 events through the ssl module, blocking, then 100 on an event loop, whose reads fail in between."""
        root, exe = entry["root"] or None, entry["exe"]
        with self.target(root, exe) as target, self.record(target) as recording:
            version = target.do("import")["version"]
            if version is None:
                raise Skip("this interpreter has no ssl module")
            one = target.do("ssl", url=self.origin.url(n=20, ms=20), cafile=self.ca_of(root))
            two = target.do("loop", kind="asyncio", first=[self.origin.url(n=100, ms=20)], then=[],
                            cafile=self.ca_of(root))
            check((one["events"], two["events"]) == (20, [100]), "the target read %r, %r", one, two)
            objects = recording.stop()
        check(chunks_of(objects) == [20, 100], "chunks seen: %r", chunks_of(objects))
        check(not of_type(objects, "tls_unread"), "%r", of_type(objects, "tls_unread"))
        return "%s, %s" % (target.version, version)

    # ---- copies

    def private_copy(self, ex):
        """As wheels have it: a copy under a mangled name, used by code of their own."""
        original = self.libssl()
        name = os.path.basename(original).replace("libssl", "libssl-1a2b3c4d", 1)
        copy = os.path.join(self.folder, name)
        shutil.copy(original, copy)
        with self.target() as target:
            target.do("load", lib=copy)
            with self.record(target) as recording:
                check(target.do("ctypes", lib=copy, url=self.origin.url(n=20, ms=20), ex=ex) == {"events": 20},
                      "the target did not read its stream")
                objects = recording.stop()
        expect_chunks(objects, [20])
        libraries = [o["object"] for o in of_type(objects, "process")[0]["tls"]]
        check(libraries == [copy], "libraries: %r", libraries)
        return name

    def private_copy_plain_calls(self, _):
        return self.private_copy(False)

    def private_copy_ex_calls(self, _):
        return self.private_copy(True)

    def deleted_copy(self, _):
        """An upgrade has replaced the file since the program loaded it: what is mapped is probed, not what lies there."""
        copy = os.path.join(self.folder, "libssl-old.so.3")
        shutil.copy(self.libssl(), copy)
        with self.target() as target:
            target.do("load", lib=copy)
            other = copy + ".new"
            with open(other, "wb") as file:
                file.write(b"not what is mapped")
            os.replace(other, copy)
            with self.record(target) as recording:
                told = target.do("ctypes", lib=copy, url=self.origin.url(n=20, ms=20))
                check(told == {"events": 20}, "the target read %r", told)
                objects = recording.stop()
        expect_chunks(objects, [20])
        return of_type(objects, "process")[0]["tls"][0]["object"]

    def two_copies(self, _):
        """The system's and a wheel's, in turns."""
        copy = os.path.join(self.folder, "libssl-two.so.3")
        shutil.copy(self.libssl(), copy)
        with self.target() as target:
            target.do("import")
            target.do("load", lib=copy)
            with self.record(target) as recording:
                for _ in range(2):
                    target.do("ssl", url=self.origin.url(n=20, ms=10), cafile=self.cafile)
                    target.do("ctypes", lib=copy, url=self.origin.url(n=30, ms=10), ex=True)
                objects = recording.stop()
            report = self.doctor(target)["target"]
        expect_chunks(objects, [20, 30, 20, 30])
        check(len(of_type(objects, "process")[0]["tls"]) == 2, "%r", of_type(objects, "process"))
        probed = {p["object"] for p in report["probes"] if p["kind"] == "tls"}
        check(len(probed) == 2 and copy in probed, "probed are %r", probed)
        return " and ".join(sorted(os.path.basename(path) for path in probed))

    # ---- loaded later

    def late(self, prepare):
        """The ssl module is imported two seconds after the attach, and used a second later."""
        with self.target() as target:
            told = prepare(target)
            with self.record(target) as recording:
                time.sleep(2)
                before = target.do("time")["ns"]
                loaded = target.do("import")["ns"]
                time.sleep(1)
                target.do("ssl", url=self.origin.url(n=20, ms=20), cafile=self.cafile)
                objects = recording.stop()
        check(not of_type(objects, "process")[0]["tls"], "a TLS library was there already")
        expect_chunks(objects, [20])
        probed = of_type(objects, "tls_library")
        check(len(probed) == 1, "libraries that were found: %r", probed)
        # The import goes on for a while behind the load, so the true delay is between these two.
        late = (probed[0]["at_ns"] - loaded) / MS
        check(late < 1000, "probed %.0f ms behind the end of the import", late)
        return "%sprobed %.1f ms after the import began, which took %.1f ms" % (
            told, (probed[0]["at_ns"] - before) / MS, (loaded - before) / MS)

    def loaded_later(self, _):
        return self.late(lambda target: "")

    def loaded_among_5000_maps(self, _):
        return self.late(lambda target: "%d maps, " % target.do("maps", count=2500)["maps"])

    def loaded_and_used_at_once(self, _):
        """The first request follows the import: the probes are in before the first event comes."""
        with self.target() as target, self.record(target) as recording:
            target.do("ssl", url=self.origin.url(n=20, ms=20, wait=100), cafile=self.cafile)
            objects = recording.stop()
        expect_chunks(objects, [20])
        stream = of_type(objects, "stream")[0]
        return "host seen: %s" % (stream["host"] is not None)

    # ---- inside of something else

    def static_with_symbols(self, _):
        """In a module whose symbols are hidden, but there."""
        with self.target() as target, self.record(target) as recording:
            lib = self.module("hidden")
            told = target.do("fetch", lib=lib, url=self.origin.url(n=20, ms=20, wait=100))
            check(told["events"] == 20, "the target read %r", told)
            objects = recording.stop()
        expect_chunks(objects, [20])
        return ", ".join(of_type(objects, "tls_library")[0]["tls"]["functions"])

    def static_stripped(self, _):
        """Stripped as well: found in its code once it is used, so of the first connection the end, and all of the
        second."""
        lib = self.module("stripped")
        with self.target() as target, self.record(target) as recording:
            for _ in range(2):
                told = target.do("fetch", lib=lib, url=self.origin.url(n=60, ms=20))
                check(told["events"] == 60, "the target read %r", told)
            objects = recording.stop()
            report = self.doctor(target)
        seen = chunks_of(objects)
        check(seen and seen[-1] == 60, "chunks seen: %r", seen)
        check(len(seen) == 2 and 30 <= seen[0] < 60, "chunks seen: %r", seen)
        check(not of_type(objects, "tls_unread"), "%r", of_type(objects, "tls_unread"))
        rows = [o for o in report["target"]["tls"] if o["object"] == lib]
        check(rows and rows[0]["source"] == "code" and rows[0]["on_use"], "doctor says %r", report["target"]["tls"])
        return "%d of 60 chunks of the first, then 60; %s" % (seen[0], ", ".join(rows[0]["functions"]))

    def in_interpreter(self, strip):
        """A python with everything inside, as uv's builds are: one static program."""
        program = os.path.join(self.folder, "python-static" + ("-stripped" if strip else ""))
        source = program + ".c"
        with open(source, "w") as file:
            file.write('#include <Python.h>\n#include "%s"\n'
                       "int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }\n"
                       % os.path.join(HERE, "tls_places_fetch.c"))
        config = "/usr/bin/python3-config"
        if not os.path.exists(config):
            raise Skip("no python3-config (libpython3-dev)")
        flags = subprocess.run([config, "--includes"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        library = glob.glob("/usr/lib/python3*/config-3*/libpython3*[0-9].a")
        if not library:
            raise Skip("no static libpython (libpython3-dev)")
        built(["cc", "-O2", "-no-pie", "-o", program, source, *flags, "-rdynamic", "-Wl,--whole-archive",
               library[0], "-Wl,--no-whole-archive", "-Wl,--exclude-libs,libssl.a:libcrypto.a", "-l:libssl.a", "-l:libcrypto.a", "-lexpat", "-lz", "-ldl", "-lm", "-lutil", "-lpthread"],
              "a static python (libssl-dev, libpython3-dev, libexpat1-dev)")
        if strip:
            subprocess.run(["strip", "--strip-all", program], check=True)
        with self.target(python=program) as target, self.record(target) as recording:
            for _ in range(2):
                told = target.do("fetch", lib=None, url=self.origin.url(n=20, ms=20))
                check(told["events"] == 20, "the target read %r", told)
            objects = recording.stop()
        expect_chunks(objects, [20, 20])
        process = of_type(objects, "process")[0]
        check([o["object"] for o in process["tls"]] == [program], "libraries: %r", process["tls"])
        return ", ".join(process["tls"][0]["functions"])

    def static_interpreter(self, _):
        return self.in_interpreter(False)

    def static_interpreter_stripped(self, _):
        return self.in_interpreter(True)

    # ---- C40

    def unreadable(self, _):
        """A module whose TLS functions nothing names reads one stream, the ssl module another."""
        lib = self.module("nameless")
        with self.target() as target, self.record(target) as recording:
            first = target.do("fetch", lib=lib, url=self.origin.url(n=60, ms=20))
            second = target.do("ssl", url=self.origin.url(n=20, ms=20), cafile=self.cafile)
            check((first["events"], second["events"]) == (60, 20), "the target read %r, %r", first, second)
            objects, text = recording.stop(), recording.report()
            report = self.doctor(target)
        expect_chunks(objects, [20])
        unread = of_type(objects, "tls_unread")
        check(len(unread) == 1, "unread connections: %r", unread)
        check(unread[0]["fd"] == first["fd"] and unread[0]["library"] == lib, "%r", unread)
        # Head, events and the last piece, and the tickets of TLS 1.3.
        check(62 <= unread[0]["records"] <= 64, "%r", unread)
        summary = of_type(objects, "summary")[0]
        check(summary["tls_unread"] == 1 and summary["streams"] == 2, "%r", summary)
        said = re.sub(r"\s+", " ", text)
        check("TLS connection on fd %d to 127.0.0.1" % first["fd"] in said, "the report does not say it:\n%s", text)
        check("cannot be read (library %s)" % lib in said, "the report does not name the library:\n%s", text)
        self.judge_records(objects, 60, 20)
        spots = [spot["what"] for spot in report["blind_spots"] if lib in spot["what"]]
        check(len(spots) == 1, "the doctor does not name it: %r", report["blind_spots"])
        return "fd %d, %d records; %d chunks by records" % (
            first["fd"], unread[0]["records"], chunks_of(objects, "tls-records")[0])

    def judge_records(self, objects, events, interval):
        """The stream that was made of records: the run in front of it apart, one chunk for each, in rhythm."""
        streams = [o for o in of_type(objects, "stream") if o["protocol"] == "tls-records"]
        check(len(streams) == 1, "streams of records: %r", streams)
        check(events - 12 <= streams[0]["chunks"] <= events - 7, "%r", streams[0])
        check(streams[0]["tls"] and streams[0]["host"] is None and streams[0]["first_chunk_ns"] is None, "%r",
              streams[0])
        gaps = [o for o in of_type(objects, "gap") if o["stream"] == streams[0]["id"]]
        rhythm = statistics.median(o["gap_ns"] for o in gaps) / MS
        check(0.7 * interval < rhythm < 1.3 * interval, "the rhythm is %.1f ms", rhythm)
        check(all(o["basis"] == "arrival" for o in gaps), "arrivals that are not known")

    def only_unreadable(self, _):
        """Nothing else in the process: the report must not say that no stream was seen."""
        lib = self.module("nameless")
        with self.target() as target, self.record(target) as recording:
            told = target.do("fetch", lib=lib, url=self.origin.url(n=8, ms=10))
            check(told["events"] == 8, "the target read %r", told)
            objects, text = recording.stop(), recording.report()
        check(not of_type(objects, "stream"), "streams that were made up: %r", of_type(objects, "stream"))
        check(NO_EVENTS not in text and "cannot be read (library" in re.sub(r"\s+", " ", text), "%s", text)
        return "8 events are no stream of records"

    def handshakes_only(self, _):
        """Connections that carry little are no news, and none of a library that is read is said to be unread."""
        with self.target() as target, self.record(target) as recording:
            urls = [self.origin.url(n=0, ms=1)] * 5
            target.do("loop", kind="asyncio", first=urls, then=urls, cafile=self.cafile)
            for _ in range(5):
                target.do("ssl", url=self.origin.url(n=0, ms=1), cafile=self.cafile)
            objects = recording.stop()
        check(not of_type(objects, "tls_unread"), "%r", of_type(objects, "tls_unread"))
        return "15 short connections"

    # ---- C38

    def loop(self, kind, root=None, python=None):
        """Two TLS streams and a plain one at once; when the first has ended, another in its place."""
        first = [self.origin.url(n=40, ms=30), self.origin.url(n=36, ms=50),
                 self.origin.url("http", n=60, ms=20)]
        with self.target(root, python) as target, self.record(target) as recording:
            target.do("import")
            told = target.do("loop", kind=kind, first=first, then=[self.origin.url(n=30, ms=30)],
                             cafile=self.ca_of(root))
            check(told["events"] == [40, 36, 60, 30], "the target read %r", told)
            objects = recording.stop()
        seen = sorted((o["chunks"], o["tls"]) for o in of_type(objects, "stream"))
        check(seen == [(30, True), (36, True), (40, True), (60, False)], "streams: %r", seen)
        check(not of_type(objects, "tls_unread"), "%r", of_type(objects, "tls_unread"))
        known = 0
        for stream in of_type(objects, "stream"):
            # By arrivals, which are those of the right socket only if it was found, and which a busy machine that lets
            # the target wait leaves alone.
            arrivals = [o["arrival_ns"] for o in of_type(objects, "chunk") if o["stream"] == stream["id"]]
            arrivals = [at for at in arrivals if at is not None]
            rhythm = statistics.median(b - a for a, b in zip(arrivals, arrivals[1:])) / MS
            true = {40: 30, 36: 50, 60: 20, 30: 30}[stream["chunks"]]
            check(0.7 * true < rhythm < 1.3 * true, "the rhythm of %d chunks is %.1f ms", stream["chunks"], rhythm)
            known += sum(o["basis"] == "arrival" for o in of_type(objects, "gap") if o["stream"] == stream["id"])
        share = known / len(of_type(objects, "gap"))
        check(share > 0.9, "arrivals are known of %.0f %%", 100 * share)
        return "%s, arrivals known of %.0f %%" % (target.version, 100 * share)

    def tunnel(self, _):
        """Behind a proxy's answer to CONNECT, which is HTTP, the same socket goes on with TLS."""
        proxy = Proxy()
        with self.target() as target, self.record(target) as recording:
            if tuple(map(int, target.version.split(".")[:2])) < (3, 11):
                raise Skip("StreamWriter.start_tls came with 3.11")
            one = target.do("ssl", url=self.origin.url(n=20, ms=20), cafile=self.cafile, proxy=proxy.port)
            two = target.do("loop", kind="asyncio", first=[self.origin.url(n=n, ms=20) for n in (40, 60)],
                            then=[], cafile=self.cafile, proxy=proxy.port)
            check((one["events"], two["events"]) == (20, [40, 60]), "the target read %r, %r", one, two)
            objects = recording.stop()
        proxy.close()
        check(proxy.tunnels == 3, "%d tunnels", proxy.tunnels)
        expect_chunks(objects, [20, 40, 60])
        check(not of_type(objects, "tls_unread"), "%r", of_type(objects, "tls_unread"))
        gaps = of_type(objects, "gap")
        share = sum(o["basis"] == "arrival" for o in gaps) / len(gaps)
        check(share > 0.9, "arrivals are known of %.0f %%", 100 * share)
        return "arrivals known of %.0f %%" % (100 * share)

    def lockstep(self, _):
        """Four streams of the same events at the same times: which socket is whose nobody can tell by lengths."""
        first = [self.origin.url(n=50, ms=30)] * 4
        with self.target() as target, self.record(target) as recording:
            target.do("import")
            target.do("loop", kind="asyncio", first=first, then=[], cafile=self.cafile)
            objects = recording.stop()
        expect_chunks(objects, [50] * 4)
        gaps = of_type(objects, "gap")
        share = sum(o["basis"] == "arrival" for o in gaps) / len(gaps)
        check(share > 0.8, "arrivals are known of %.0f %%", 100 * share)
        return "arrivals known of %.0f %%" % (100 * share)

    # ---- other libraries

    def gnutls(self, _):
        found = sorted(glob.glob("/usr/lib/*/libgnutls.so.[0-9]*"))
        if not found:
            raise Skip("no libgnutls on this machine")
        lib = os.path.realpath(found[0])
        with self.target() as target:
            target.do("load", lib=lib)
            with self.record(target) as recording:
                check(target.do("gnutls", lib=lib, url=self.origin.url(n=20, ms=20)) == {"events": 20},
                      "the target did not read its stream")
                objects = recording.stop()
        expect_chunks(objects, [20])
        return os.path.basename(lib)

    def boringssl(self, root):
        found = sorted(glob.glob(root + "/usr/lib/*/android/libssl.so*"))
        if not found:
            raise Skip("no BoringSSL in %s (android-libboringssl)" % root)
        lib = found[0][len(root):]
        with self.target(root, "/usr/bin/python3") as target:
            target.do("load", lib=os.path.join(os.path.dirname(lib), os.path.basename(
                glob.glob(root + os.path.dirname(lib) + "/libcrypto.so*")[0])))
            target.do("load", lib=lib)
            with self.record(target) as recording:
                check(target.do("ctypes", lib=lib, url=self.origin.url(n=20, ms=20)) == {"events": 20},
                      "the target did not read its stream")
                objects = recording.stop()
        expect_chunks(objects, [20])
        return "%s: %s" % (lib, ", ".join(of_type(objects, "process")[0]["tls"][0]["functions"]))


def interpreters():
    """What scripts/interpreters lists."""
    told = subprocess.run([os.path.join(TOP, "scripts/interpreters"), "--no-make"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(told)


def made_root():
    """The root file system with event loops and BoringSSL, or None and why there is none."""
    made = subprocess.run([os.path.join(TOP, "scripts/lib/tls-root")], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if made.returncode:
        return None, (made.stderr.strip().splitlines() or ["?"])[-1]
    return made.stdout.strip(), ""


def needs(root, why, row):
    """The row, or its skip where there is no such root file system."""
    def skipped(_):
        raise Skip("no root file system: " + why)
    return row if root else skipped


def table_of(rows):
    table = [("ssl module: " + entry["name"], lambda _, e=entry: rows.interpreter(e)) for entry in interpreters()]
    names = ("private_copy_plain_calls", "private_copy_ex_calls", "deleted_copy", "two_copies", "loaded_later",
             "loaded_among_5000_maps", "loaded_and_used_at_once", "static_with_symbols", "static_stripped",
             "static_interpreter", "static_interpreter_stripped", "unreadable", "only_unreadable",
             "handshakes_only", "tunnel", "lockstep", "gnutls")
    table += [(name.replace("_", " "), getattr(rows, name)) for name in names]
    root, why = made_root()
    table.append(("loop: asyncio", lambda _: rows.loop("asyncio")))
    for kind in ("asyncio", "uvloop", "anyio"):
        table.append(("loop: %s, Debian 13" % kind,
                      needs(root, why, lambda _, k=kind: rows.loop(k, root, "/usr/bin/python3"))))
    table.append(("BoringSSL", needs(root, why, lambda _: rows.boringssl(root))))
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--only", help="rows whose name contains this")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        subprocess.run([os.path.join(TOP, "tests/lab/certs.sh"), folder], check=True)
        run_rows(table_of(Rows(args.gcause, args.python, folder)), args.only)


if __name__ == "__main__":
    main()

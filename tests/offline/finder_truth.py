#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the search of stripped interpreters finds the collector: Debian's, for amd64 and arm64.

Takes each interpreter and its shared library from Debian's packages, lets the finder search the code alone, and
compares with the addresses in the detached debug file of the same build-id: the function with every clone, and
the fragments that the compiler split off it. Nothing is run, so any machine can check both architectures.

    finder_truth.py --finder build/tests/finder_bench [--cache DIR] [--all]

The packages (260 MB, with --all 600 MB) are kept in the cache. Ends with 77 if they are not there and no mirror
can be reached.
"""

import argparse
import glob
import hashlib
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

# Version, suite, and whether it belongs to the short run.
RELEASES = [("3.9", "bullseye", False), ("3.11", "bookworm", True), ("3.13", "trixie", True),
            ("3.13", "sid", False), ("3.14", "sid", True), ("3.15", "sid", False)]
ARCHITECTURES = ["arm64", "amd64"]
COLLECTOR = re.compile(r"(gc_collect_main|collect|_PyGC_Collect)(\.(constprop|isra|part|lto_priv|llvm)\..*)?")
SYMBOL = re.compile(r"^\s*\d+: ([0-9a-f]+)\s+(\d+) FUNC\s+\S+\s+\S+\s+\d+ (\S+)$", re.M)


class NotThere(Exception):
    """What is needed cannot be had here; the message says what."""


def run(*command):
    # readelf complains on the standard error of what a debug file lacks by nature.
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def default_mirror():
    """GCAUSE_MIRROR, else the one that apt uses for Debian; empty without one."""
    if os.environ.get("GCAUSE_MIRROR"):
        return os.environ["GCAUSE_MIRROR"]
    try:
        uris = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages",
                   "Origin: Debian", "Label: Debian", "Component: main").split()
    except (OSError, subprocess.CalledProcessError):
        uris = []
    uris = [uri for uri in uris if uri.startswith("http")]
    return uris[0] if uris else ""


class Packages:
    """Debian's packages by suite, architecture and name, in a cache."""

    def __init__(self, cache, mirror):
        self.cache = cache
        self.mirror = mirror.rstrip("/")
        self.indexes = {}
        os.makedirs(cache, exist_ok=True)
        self.known_path = os.path.join(cache, "finder_truth.json")
        try:
            with open(self.known_path, encoding="utf-8") as file:
                self.known = json.load(file)
        except (OSError, ValueError):
            self.known = {}

    def fetch(self, path):
        try:
            if not self.mirror:
                raise OSError("apt names no Debian mirror here; GCAUSE_MIRROR may")
            with urllib.request.urlopen(self.mirror + "/" + path, timeout=30) as answer:
                return answer.read()
        except OSError as error:
            raise NotThere(f"{self.mirror}/{path}: {error}") from error

    def index(self, suite, architecture):
        """{name: (path, checksum)} of the packages of CPython."""
        key = (suite, architecture)
        if key not in self.indexes:
            text = lzma.decompress(self.fetch(f"dists/{suite}/main/binary-{architecture}/Packages.xz")).decode()
            found = {}
            for paragraph in text.split("\n\n"):
                if re.match(r"Package: (lib)?python3\.", paragraph):
                    fields = dict(re.findall(r"^(Package|Filename|SHA256): (.*)$", paragraph, re.M))
                    found[fields["Package"]] = (fields["Filename"], fields["SHA256"])
            self.indexes[key] = found
        return self.indexes[key]

    def get(self, suite, architecture, name):
        """The path of a package in the cache."""
        key = f"{suite} {architecture} {name}"
        if key in self.known and os.path.exists(os.path.join(self.cache, self.known[key])):
            return os.path.join(self.cache, self.known[key])
        try:
            remote, checksum = self.index(suite, architecture)[name]
        except KeyError:
            raise NotThere(f"{suite} has no {name} for {architecture}") from None
        path = os.path.join(self.cache, os.path.basename(remote))
        if not os.path.exists(path) or hashlib.sha256(read(path)).hexdigest() != checksum:
            body = self.fetch(remote)
            if hashlib.sha256(body).hexdigest() != checksum:
                raise NotThere(f"{remote} has another checksum than its index says")
            with open(path + ".new", "wb") as file:
                file.write(body)
            os.replace(path + ".new", path)
        self.known[key] = os.path.basename(path)
        with open(self.known_path, "w", encoding="utf-8") as file:
            json.dump(self.known, file, indent=1)
        return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def extract(package, wanted, folder):
    """Writes the members of a package whose path `wanted` accepts; returns where they are."""
    written = []
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                if member.isfile() and wanted(member.name):
                    path = os.path.join(folder, os.path.basename(package), member.name.lstrip("./"))
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.write(archive.extractfile(member).read())
                    written.append(path)
    return written


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-nW", path)).group(1)


def truth_of(debug_file):
    """The addresses of the collector with its clones, and of the fragments of these."""
    functions, fragments = {}, set()
    for address, size, name in SYMBOL.findall(run("readelf", "-sW", debug_file)):
        if not COLLECTOR.fullmatch(re.sub(r"\.cold(\.\d+)?$", "", name)):
            continue
        if ".cold" in name:
            fragments.add(int(address, 16))
        # _PyGC_Collect as a mere jump is not the collector.
        elif not (name == "_PyGC_Collect" and int(size) <= 16):
            functions[int(address, 16)] = name
    return functions, fragments


def check(finder, binary, debug_file, title):
    """Prints one row; returns whether it is right."""
    functions, fragments = truth_of(debug_file)
    result = subprocess.run([finder, "--scan-only", "--json", binary], stdout=subprocess.PIPE, text=True,
                            check=False)
    found = json.loads(result.stdout)
    addresses = {function["address"] for function in found["functions"]}
    parts = {begin for function in found["functions"] for begin, _ in function["ranges"][1:]}
    right = bool(functions) and addresses == set(functions) and parts == fragments
    truth = ", ".join(f"{name} {address:#x}" for address, name in sorted(functions.items())) or "none"
    print(f"  {'ok  ' if right else 'FAIL'} {title:44} truth {truth}, {len(fragments)} fragments; found "
          f"{', '.join(hex(address) for address in sorted(addresses)) or 'none'}, {len(parts)} fragments; "
          f"{found['first_ms']:.1f} ms", flush=True)
    if not right:
        print(f"       {found['ways'][-1]['result']}")
    return right


def check_release(options, packages, version, suite, architecture):
    """Checks the interpreter and the library of one release; returns how many rows were right and wrong."""
    right = wrong = 0
    name = f"python{version}"
    needed = {name: packages.get(suite, architecture, name + "-minimal"),
              "lib" + name: packages.get(suite, architecture, "lib" + name)}
    debug_package = packages.get(suite, architecture, name + "-dbg")
    with tempfile.TemporaryDirectory(prefix="finder-truth-") as folder:
        binaries = []
        for package in needed.values():
            binaries += extract(package, re.compile(
                rf"\./usr/(bin/python{version}|lib/[^/]+/libpython{version}\.so\.1\.0)").fullmatch, folder)
        ids = {build_id(binary): binary for binary in binaries}
        paths = {f"./usr/lib/debug/.build-id/{key[:2]}/{key[2:]}.debug": key for key in ids}
        extract(debug_package, paths.__contains__, folder)
        for path, key in paths.items():
            binary = ids[key]
            title = f"{suite} {architecture} {os.path.basename(binary)}"
            debug_files = glob.glob(os.path.join(folder, "*", path.lstrip("./")))
            if debug_files and check(options.finder, binary, debug_files[0], title):
                right += 1
            else:
                wrong += 1
                if not debug_files:
                    print(f"  FAIL {title}: {name}-dbg has no debug file of it")
    if len(binaries) != 2:
        print(f"  FAIL {suite} {architecture}: expected {name} and its library, got {binaries}")
        wrong += 1
    return right, wrong


def main():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = os.environ.get("GCAUSE_CACHE") or os.path.join(home, "gcause")
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--finder", required=True, help="the program finder_bench")
    parser.add_argument("--cache", default=os.path.join(cache, "debs"))
    parser.add_argument("--all", action="store_true", help="also the releases beside 3.11, 3.13 and 3.14")
    options = parser.parse_args()
    packages = Packages(options.cache, default_mirror())
    right = wrong = 0
    absent = []
    for version, suite, short in RELEASES:
        for architecture in ARCHITECTURES:
            if not (short or options.all):
                continue
            try:
                good, bad = check_release(options, packages, version, suite, architecture)
            except NotThere as error:
                absent.append(str(error))
                continue
            right += good
            wrong += bad
    for reason in absent:
        print(f"  not checked: {reason}")
    print(f"{right} right, {wrong} wrong, {len(absent)} releases not checked")
    if wrong:
        return 1
    return 77 if absent else 0


if __name__ == "__main__":
    sys.exit(main())

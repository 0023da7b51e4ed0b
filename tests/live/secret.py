# SPDX-License-Identifier: Apache-2.0
"""A secret that is in every request and every chunk is in nothing that gcause writes.

The token is made anew for each run; it is in the URL of each request and the text of each chunk. gcause runs with
each form of output at once, with -v, and with a terminal as its standard error, so that it shows its progress; its
recording is reported on in each form, too. All of these bytes are searched for each run of 12 characters of the
token: as it is, in hexadecimal, in base64 at each of the three places where it may begin, and in UTF-16. In the
midst of a run no file but these is open for writing. A capture made by --raw-capture, which holds payload by its
purpose, shows that the search finds what is there. And gcause, aborted in the midst of streams, leaves no core file.

Needs root and a kernel with BTF.
"""
import argparse
import base64
import os
import pty
import resource
import secrets
import signal
import string
import subprocess
import sys
import tempfile
import threading
import time

import truth

WINDOW = 12  # characters in a row that count as the secret
MODES = [(mode, tls) for mode in ("asyncio", "sync") for tls in (False, True)]
URL_SAFE = bytes.maketrans(b"+/", b"-_")
OUTPUTS = ("out.jsonl", "out.txt", "out.gcause")


def patterns(token):
    """Each form in which a part of the token would be found: {bytes: its name}."""
    found = {}
    for at in range(len(token) - WINDOW + 1):
        part = token[at:at + WINDOW].encode()
        found[part] = "as it is"
        found[part.hex().encode()] = found[part.hex().upper().encode()] = "in hexadecimal"
        found[part.decode().encode("utf-16-le")] = "in UTF-16"
        for shift in range(3):
            # The characters at both ends also depend on what stands beside the part.
            whole = base64.b64encode(b"\0" * shift + part)
            begin, end = (8 * shift + 5) // 6, 8 * (shift + WINDOW) // 6
            found[whole[begin:end]] = found[whole[begin:end].translate(URL_SAFE)] = "in base64"
    return found


def find(token, data):
    """How the token is in the data; None if it is not."""
    for part, form in patterns(token).items():
        if part in data:
            return form
    return None


class Terminal:
    """A pseudoterminal that takes what is written to it."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.taken = b""
        self.thread = threading.Thread(target=self._take, daemon=True)
        self.thread.start()

    def _take(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            self.taken += data

    def wait_for(self, text):
        until = time.monotonic() + 30
        while text not in self.taken:
            if time.monotonic() > until:
                raise SystemExit("gcause does not say %s: %s" % (text, self.taken))
            time.sleep(0.01)

    def close(self):
        os.close(self.slave)
        self.thread.join(10)
        os.close(self.master)


class SecretRun(truth.Run):
    """The lab client, with the secret in all that it asks for and gets; gcause on a terminal, in a folder of its own."""

    def __init__(self, *args):
        super().__init__(*args)
        self.token = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(40))
        self.own = os.path.join(self.folder, "gcause")
        os.mkdir(self.own)
        self.open_files = None

    def client_options(self):
        return ["--streams", "3" if self.mode == "asyncio" else "1", "--keep-alive", "2", "--scenario", "plain"]

    def query(self):
        return "chunks=80&interval_ms=15&named=1&text=" + self.token

    def outputs(self):
        options = [word for name in OUTPUTS for word in ("-o", name)]
        return [*options, "-o", "-", "-v"]

    def attach(self):
        self.terminal = Terminal()
        self.stdout = open(os.path.join(self.own, "stdout"), "wb")
        gcause = subprocess.Popen(
            [os.path.abspath(self.args.gcause), "record", "-p", str(self.pid), "-b", "10ms", "--chunks",
             *self.outputs()], cwd=self.own, stdin=subprocess.DEVNULL, stdout=self.stdout, stderr=self.terminal.slave)
        self.terminal.wait_for(b"gcause: recording pid")
        return gcause

    def beside(self, gcause):
        time.sleep(1.2)
        folder = "/proc/%d/fd" % gcause.pid
        self.open_files = []
        for name in os.listdir(folder):
            path = os.readlink(os.path.join(folder, name))
            if path.startswith("/") and os.path.isfile(path) and self.is_for_writing(gcause.pid, name):
                self.open_files.append(path)

    @staticmethod
    def is_for_writing(pid, number):
        with open("/proc/%d/fdinfo/%s" % (pid, number)) as text:
            flags = next(line for line in text if line.startswith("flags:"))
        return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY

    def finish(self, gcause):
        client, origin = self.client_process, self.origin_process
        codes = client.wait(), gcause.wait()
        origin.send_signal(signal.SIGTERM)
        origin.wait()
        self.stdout.close()
        self.terminal.close()
        if codes != (0, 0):
            raise SystemExit("client and gcause ended with %s: %s" % (codes, self.terminal.taken))
        self.seen = truth.load(os.path.join(self.own, "out.jsonl"))

    def reports(self):
        """What gcause says of its recording later; (name, bytes) each."""
        for form in ("text", "jsonl"):
            done = subprocess.run([self.args.gcause, "report", os.path.join(self.own, "out.gcause"), "-f", form],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            yield "report -f " + form, done.stdout + done.stderr

    def written(self):
        """All that gcause wrote; (name, bytes) each."""
        yield "the terminal", self.terminal.taken
        for base, _, names in os.walk(self.own):
            for name in names:
                with open(os.path.join(base, name), "rb") as data:
                    yield name, data.read()
        yield from self.reports()


class CaptureRun(SecretRun):
    """With a raw capture beside."""

    def outputs(self):
        return super().outputs() + ["--raw-capture", "raw"]


class AbortedRun(SecretRun):
    """gcause is aborted in the midst of the streams, where core files are allowed."""

    def attach(self):
        soft = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (soft[1], soft[1]))  # of this process; its children have it
        try:
            return super().attach()
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, soft)

    def beside(self, gcause):
        time.sleep(1)
        os.kill(gcause.pid, signal.SIGABRT)
        self.status = os.waitpid(gcause.pid, 0)[1]
        self.client_process.kill()

    def finish(self, gcause):
        gcause.returncode = -signal.SIGABRT
        for process in (self.client_process, self.origin_process):
            process.kill()
            process.wait()
        self.stdout.close()
        self.terminal.close()


def ordinary(args, mode, tls, folder):
    run, judge = SecretRun(args, args.python, mode, "plain", tls, folder), truth.Judge()
    run.go()
    chunks = [record for record in run.seen if record["type"] == "chunk"]
    judge.expect(len(chunks) >= 2 * 80, "only %d chunks were seen", len(chunks))
    size = 0
    for name, data in run.written():
        size += len(data)
        judge.expect(data or name == "stderr", "%s is empty", name)
        form = find(run.token, data)
        judge.expect(form is None, "the secret is in %s, %s", name, form)
    judge.expect(b" came from the kernel" in run.terminal.taken, "-v says nothing: %s", run.terminal.taken)
    judge.expect(b" streams, " in run.terminal.taken, "no progress on the terminal: %s", run.terminal.taken)
    allowed = {os.path.join(run.own, name) for name in OUTPUTS + ("stdout",)}
    judge.expect(run.open_files and set(run.open_files) <= allowed, "open for writing: %s", run.open_files)
    return judge, "%d chunks seen, %d bytes written and searched" % (len(chunks), size)


def captured(args, folder):
    run, judge = CaptureRun(args, args.python, "sync", "plain", False, folder), truth.Judge()
    run.go()
    found = {name: find(run.token, data) for name, data in run.written()}
    judge.expect(found.pop("raw") == "as it is", "the search does not find the secret in the raw capture")
    judge.expect(not any(found.values()), "the secret is in %s", found)
    return judge, "the search finds it in a raw capture, and nowhere else"


def dumps_core(folder):
    """Whether this system makes a core file of a process that is aborted here."""
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    child = subprocess.Popen([sys.executable, "-c", "import os; os.abort()"], cwd=folder, stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (limit, limit)))
    return os.WCOREDUMP(os.waitpid(child.pid, 0)[1])


def aborted(args, folder):
    if not dumps_core(folder):
        return None, "this system makes no core files, so there is nothing to see"
    run, judge = AbortedRun(args, args.python, "sync", "plain", False, folder), truth.Judge()
    before = set(os.listdir(run.own))
    run.go()
    judge.expect(os.WIFSIGNALED(run.status) and os.WTERMSIG(run.status) == signal.SIGABRT, "status %d", run.status)
    judge.expect(not os.WCOREDUMP(run.status), "gcause left a core file")
    left = set(os.listdir(run.own)) - before - set(OUTPUTS) - {"stdout"}
    judge.expect(not left, "gcause left %s", left)
    return judge, "aborted, and no core file"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gcause", required=True)
    parser.add_argument("--python", required=True)
    args = parser.parse_args()
    args.without = []
    args.gcause = os.path.abspath(args.gcause)
    rows = [("%s %s" % (mode, "tls" if tls else "plain"), lambda folder, mode=mode, tls=tls: ordinary(
        args, mode, tls, folder)) for mode, tls in MODES]
    rows += [("raw capture", lambda folder: captured(args, folder)), ("aborted", lambda folder: aborted(args, folder))]
    failed = 0
    for name, row in rows:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.path.join(truth.LAB, "certs.sh"), folder], check=True, stdout=subprocess.DEVNULL)
            judge, text = row(folder)
        faults = judge.faults if judge else []
        failed += bool(faults)
        print("%-4s %-14s %s" % ("FAIL" if faults else "ok" if judge else "SKIP", name, text), flush=True)
        for fault in faults[:5]:
            print("       " + fault, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

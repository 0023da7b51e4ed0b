# SPDX-License-Identifier: Apache-2.0
"""The interpreters that the live tests run against, and the forms in which a build of one may come.

A form is made by changing a copy of the file that holds the interpreter, its libpython or the program. An
interpreter of this machine finds a changed libpython by LD_LIBRARY_PATH. Everywhere else the changed file is
mounted over the original in a mount namespace of the target, so its path means something else there than here.
"""
import collections
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts")
OVER = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'

# name -> (without symbols, without USDT notes)
FORMS = {
    "as-is": (False, False),
    "stripped": (True, False),
    "no-usdt": (False, True),
    "stripped-no-usdt": (True, True),
}

Interpreter = collections.namedtuple("Interpreter", "name version root exe lib libdir")


def interpreters(*options):
    """What scripts/interpreters lists, and makes where it is missing."""
    listed = subprocess.run([os.path.join(SCRIPTS, "interpreters"), *options], check=False,
                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if listed.returncode:
        raise SystemExit("without interpreters there is no test: scripts/interpreters says why")
    return [Interpreter(**fields) for fields in json.loads(listed.stdout)]


def chosen(names):
    """The interpreters of these names; all of them for None. Makes what is missing of them."""
    found = interpreters("--no-make") if names else []
    if not names or set(names) - {interpreter.name for interpreter in found}:
        found = interpreters()
    missing = set(names or ()) - {interpreter.name for interpreter in found}
    if missing:
        raise SystemExit("no interpreter %s; there are %s" % (", ".join(sorted(missing)),
                                                              ", ".join(each.name for each in found)))
    return [interpreter for interpreter in found if not names or interpreter.name in names]


def sections(path):
    listed = subprocess.run(["readelf", "--wide", "--section-headers", path], check=True, text=True,
                            stdout=subprocess.PIPE)
    return {name for name in (".symtab", ".note.stapsdt") if name in listed.stdout}


def changed(interpreter, form, folder):
    """A copy of the file that holds the interpreter, in that form; None for the file as it is."""
    stripped, without_usdt = FORMS[form]
    if not stripped and not without_usdt:
        return None
    original = interpreter.root + (interpreter.lib or interpreter.exe)
    copy = os.path.join(folder, os.path.basename(original))
    command = ["objcopy"] + ["--strip-all"] * stripped + ["--remove-section=.note.stapsdt"] * without_usdt
    subprocess.run(command + [original, copy], check=True)
    os.chmod(copy, 0o755)
    left = sections(copy)
    if (stripped and ".symtab" in left) or (without_usdt and ".note.stapsdt" in left):
        raise SystemExit("objcopy left %s in %s" % (sorted(left), copy))
    return copy


class Launch:
    """How a Python program of a folder of this machine is started with an interpreter in some form."""

    def __init__(self, interpreter, form, folder, programs=HERE):
        self.interpreter, self.programs = interpreter, programs
        self.changed = changed(interpreter, form, folder)
        self.environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
        if not interpreter.root and interpreter.lib and self.changed:
            self.environment["LD_LIBRARY_PATH"] = folder

    def path(self, program):
        """The program's path as the target sees it."""
        return os.path.join("/mnt" if self.interpreter.root else self.programs, program)

    def command(self, program, *arguments):
        """The whole command; the target has the PID of the process that runs it."""
        target = [self.interpreter.exe, self.path(program), *arguments]
        if self.interpreter.root:
            over = ["--over", self.changed, self.interpreter.lib or self.interpreter.exe] if self.changed else []
            return ["unshare", "--mount", "--propagation", "private", os.path.join(SCRIPTS, "lib", "enter"),
                    self.interpreter.root, self.programs, *over, *target]
        if self.changed and not self.interpreter.lib:
            return ["unshare", "--mount", "--propagation", "private", "sh", "-c", OVER, "sh", self.changed,
                    self.interpreter.exe, *target]
        return target

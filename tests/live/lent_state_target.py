# SPDX-License-Identifier: Apache-2.0
"""Makes interpreters on the main thread and collects in each on a thread of its own: COUNT ROUNDS."""
import gc
import sys
import threading

try:
    import _interpreters
    run = _interpreters.exec
except ImportError:  # 3.12
    import _xxsubinterpreters as _interpreters
    run = _interpreters.run_string

gc.disable()
count, rounds = int(sys.argv[1]), int(sys.argv[2])
made = [_interpreters.create() for _ in range(count)]
for number in made:
    run(number, "import gc; gc.disable()")
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=run, args=(number, "for k in range(%d): gc.collect(k %% 3)" % (3 * rounds)))
           for number in made]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done", flush=True)
sys.stdin.readline()

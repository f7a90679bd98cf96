"""How the tests that started an emulator hold it: this stands before the emulator's own script.

Its clock moves when told so. The first line on standard output is its port. Each line on standard input is a number of
seconds by which its time moves forward; it is answered with a line. The end of standard input is the end of the test run,
however it came about.
"""

import os
import sys
import threading
import time

real_time = time.time
moved_s = 0.0
time.time = lambda: real_time() + moved_s


def obey(port, notice=lambda: None):
    """Says the port and takes orders; `notice` has the emulator look at its clock."""

    def listen():
        global moved_s
        for line in sys.stdin:
            moved_s += float(line)
            notice()
            print("moved", flush=True)
        os._exit(0)

    print(port, flush=True)
    threading.Thread(target=listen, daemon=True).start()



"""Lets the tests control an emulator that they started. This code precedes the emulator's own script.

The first line on standard output is the emulator's port. Each line on standard input is a number of seconds by which its
clock advances; the answer is a line on standard output. The process exits at the end of standard input, which is the end
of the test run for any reason.
"""

import os
import sys
import threading
import time

real_time = time.time
moved_s = 0.0
time.time = lambda: real_time() + moved_s


def run_control(port, notice=lambda: None):
    """Prints the port and reads commands; `notice` makes the emulator check its clock."""

    def listen():
        global moved_s
        for line in sys.stdin:
            moved_s += float(line)
            notice()
            print("moved", flush=True)
        os._exit(0)

    print(port, flush=True)
    threading.Thread(target=listen, daemon=True).start()



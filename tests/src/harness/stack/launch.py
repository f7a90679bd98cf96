"""Runs ministack on a port of its own and on a clock that moves when told so, until whoever started it ends.

The first line on standard output is the port. Each line on standard input is a number of seconds by which the
emulator's time moves forward; it is answered with a line. The end of standard input is the end of the test run,
however it came about.
"""

import asyncio
import os
import socket
import sys
import threading
import time
import types

real_time = time.time
moved_s = 0.0


def listen():
    global moved_s
    for line in sys.stdin:
        moved_s += float(line)
        print("moved", flush=True)
    os._exit(0)


time.time = lambda: real_time() + moved_s

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
port = listener.getsockname()[1]
# Read when the emulator is imported.
os.environ.update(
    GATEWAY_PORT=str(port), SERVICES="sqs,dynamodb,s3,secretsmanager,cloudformation", LOG_LEVEL="ERROR"
)

# The emulator asks its API Gateway about every request to a host with a dot in it, and that reads YAML, as its
# CloudFormation can. YAML's package is not pure Python, and nobody here sends any: templates are JSON.
yaml = types.ModuleType("yaml")
yaml.SafeLoader = type("SafeLoader", (), {"add_constructor": lambda *_: None})
sys.modules["yaml"] = yaml

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app

config = Config()
config.bind = [f"fd://{listener.fileno()}"]
config.keep_alive_timeout = 75
config.loglevel = "ERROR"
print(port, flush=True)
threading.Thread(target=listen, daemon=True).start()
asyncio.run(serve(app, config))

"""Runs ministack on a free port."""

import asyncio
import socket
import types

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
port = listener.getsockname()[1]
# Read when the emulator is imported.
os.environ.update(GATEWAY_PORT=str(port), LOG_LEVEL="ERROR")

# The emulator passes every request to a host with a dot to its API Gateway, which imports YAML, as does its
# CloudFormation. The YAML package is not pure Python, and the tests do not send YAML: their templates are JSON.
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
run_control(port)
asyncio.run(serve(app, config))

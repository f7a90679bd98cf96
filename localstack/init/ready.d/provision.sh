#!/bin/sh
# Run by LocalStack inside its container as soon as it is ready.
exec python3 /opt/annalist/provision.py http://127.0.0.1:4566

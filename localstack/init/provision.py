"""Makes the queues, tables and bucket of the default names on an emulator, by the calls `annalist provision` makes.

They stand in requests.jsonl beside this file, which a test holds to what `annalist provision` really asks for. Give the
emulator's address: provision.py http://127.0.0.1:4566
"""

import json
import pathlib
import sys
import urllib.request

# No emulator checks a signature, but they read the region and the service from where one stands.
CREDENTIAL = "AWS4-HMAC-SHA256 Credential=test/20260101/{region}/{service}/aws4_request, SignedHeaders=host, Signature=0"

endpoint = sys.argv[1].rstrip("/")
for line in pathlib.Path(__file__).with_name("requests.jsonl").read_text().splitlines():
    call = json.loads(line)
    body = call["body"] if isinstance(call["body"], str) else json.dumps(call["body"])
    headers = {"Authorization": CREDENTIAL.format(region=call["region"], service=call["service"])}
    headers |= {"Content-Type": call["content_type"]} | ({"X-Amz-Target": call["target"]} if call["target"] else {})
    request = urllib.request.Request(endpoint + call["path"], body.encode(), headers, method=call["method"])
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, call["target"] or call["path"])

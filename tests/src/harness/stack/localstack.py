"""Runs LocalStack's SQS and S3 on a free port, without the parts that only its container needs: no DNS server, no
Docker, no certificates. Its DynamoDB would fetch a Java program.
"""

import logging
import warnings

# Suppresses warnings about a missing package that only TLS needs.
warnings.simplefilter("ignore")
# Errors are also in the responses.
logging.disable()
# Read when the emulator is imported.
os.environ.update(
    DISABLE_EVENTS="1", SKIP_SSL_CERT_DOWNLOAD="1", SQS_DISABLE_CLOUDWATCH_METRICS="1"
)

from localstack.utils import time as localstack_time

# The original reads the system clock, not `time.time`. It provides the timestamps of sent messages.
localstack_time.now = lambda millis=False, tz=None: int(time.time() * (1000 if millis else 1))

from localstack.aws.app import LocalstackAwsGateway
from localstack.services.plugins import SERVICE_PLUGINS
from localstack.services.sqs.models import sqs_stores
from rolo.serving.twisted import TwistedGateway
from twisted.internet import reactor


def check_clock():
    """Does the work that LocalStack's SQS does once a second."""
    for _, _, store in sqs_stores.iter_stores():
        for queue in list(store.queues.values()):
            queue.requeue_inflight_messages()
            queue.enqueue_delayed_messages()


for service in ("sqs", "s3"):
    SERVICE_PLUGINS.require(service)
reactor.suggestThreadPoolSize(100)
site = TwistedGateway(LocalstackAwsGateway(SERVICE_PLUGINS))
run_control(reactor.listenTCP(0, site, interface="127.0.0.1").getHost().port, check_clock)
reactor.run(installSignalHandlers=False)

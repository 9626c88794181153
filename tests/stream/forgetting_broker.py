"""A broker that keeps about 5 MB of each partition and drops what is older: librdkafka's mock, in this process, with a topic of
images of zeros and noise.

    python forgetting_broker.py TOPIC

Prints its address. Each line that it reads is a number: of so many messages in all, it produces those that are still missing.
It ends with its input. Needs the Python of scripts/install-broker.
"""
import random
import struct
import sys

import confluent_kafka

PARTITIONS = 4
PIXELS = 784


def main():
    producer = confluent_kafka.Producer({"bootstrap.servers": "replaced", "test.mock.num.brokers": 1, "linger.ms": 1, "log_level": 0})
    topic = sys.argv[1]
    broker = next(iter(producer.list_topics(topic, timeout=10).brokers.values()))
    print("%s:%d" % (broker.host, broker.port), flush=True)
    draw = random.Random(1)
    images = [struct.pack("<%dfB" % PIXELS, *(draw.random() for _ in range(PIXELS)), label) for label in range(10)]
    made = 0
    for line in sys.stdin:
        while made < int(line):
            try:
                producer.produce(topic, images[made % len(images)], partition=made % PARTITIONS)
                made += 1
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)


if __name__ == "__main__":
    main()

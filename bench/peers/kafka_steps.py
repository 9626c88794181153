"""Trains the MLP of scripts/bench-stream from a topic as a Python program does: confluent_kafka and PyTorch.

    python kafka_steps.py BROKERS TOPIC MESSAGES [--threads 2] [--batch 128] [--fields f1,f2,…]

Each message has 784 bytes and a label, or with --fields a JSON object with these numbers and `label`, which orjson reads.
Messages are fetched 1,024 at a time, and a batch of bytes is one copy, because messages that are converted one by one take
twice as long. Prints the messages a second, from the first message on, as JSON.
"""

import argparse
import json
import operator
import time

import confluent_kafka
import numpy
import orjson
import torch
from torch import nn

SAMPLE = 784
FETCHED = 1024


def messages(brokers, topic, count):
    """Lists of values, `count` in all; the partitions follow each other as they come."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": brokers, "group.id": "peer", "auto.offset.reset": "earliest",
                                         "enable.auto.commit": False})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING) for partition in partitions])
    while count > 0:
        found = consumer.consume(min(FETCHED, count), timeout=1.0)
        for message in found:
            if message.error():
                raise SystemExit("kafka_steps: %s" % message.error())
        count -= len(found)
        yield [message.value() for message in found]
    consumer.close()


def images(values):
    rows = numpy.frombuffer(b"".join(values), numpy.uint8).reshape(len(values), SAMPLE + 1)
    x = torch.from_numpy(rows[:, :SAMPLE].astype(numpy.float32))
    return x.mul_(1 / 255).sub_(0.2860).div_(0.3530), torch.from_numpy(rows[:, SAMPLE].astype(numpy.int64))


def records(fields):
    numbers = operator.itemgetter(*fields)

    def tensors(values):
        rows = [orjson.loads(value) for value in values]
        return torch.tensor([numbers(row) for row in rows]), torch.tensor([row["label"] for row in rows])

    return tensors


def batches(lists, size, tensors):
    waiting = []
    for values in lists:
        waiting += values
        while len(waiting) >= size:
            yield tensors(waiting[:size])
            del waiting[:size]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers")
    parser.add_argument("topic")
    parser.add_argument("messages", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--fields")
    options = parser.parse_args()
    fields = options.fields.split(",") if options.fields else []
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(len(fields) or SAMPLE, 128), nn.ReLU(), nn.Linear(128, 10))
    loss, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    began, seen = None, 0
    lists = messages(options.brokers, options.topic, options.messages)
    for x, label in batches(lists, options.batch, records(fields) if fields else images):
        began = began or time.perf_counter()
        optimizer.zero_grad()
        value = loss(model(x), label)
        value.backward()
        optimizer.step()
        seen += len(x)
    print(json.dumps({"messages_per_second": seen / (time.perf_counter() - began), "loss": value.item()}))


main()

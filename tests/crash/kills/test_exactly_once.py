"""A group's acks and what is published in one transaction: each output is there once, over kills."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest
from pika.exceptions import AMQPError
from pika.spec import BasicProperties
from support.broker_process import BrokerProcess
from support.pika_client import Clients, Inbox
from support.waiting import wait_until

pytestmark = pytest.mark.crash

SEED = 20_611
KILLS = int(os.environ.get("ROUTELOG_TEST_READER_KILLS", "2"))
COMMITS_BETWEEN_KILLS = 40
RUN = 10  # messages of a transaction
INPUTS = (KILLS + 1) * COMMITS_BETWEEN_KILLS * RUN
GROUP = {"x-group": "doubling", "x-stream-offset": "first"}
PERSISTENT = BasicProperties(delivery_mode=2)


class Doubling(threading.Thread):
    """Takes numbers from the stream `inputs` and puts their doubles into the queue `outputs`, until a kill."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._channel = Clients(url).channel()
        self.commits = 0

    def run(self) -> None:
        channel = self._channel
        channel.tx_select()
        channel.basic_qos(prefetch_count=5 * RUN)
        taken = 0
        try:
            for method, _, body in channel.consume("inputs", arguments=GROUP):
                channel.basic_publish("", "outputs", b"%d" % (2 * int(body)), PERSISTENT)
                channel.basic_ack(method.delivery_tag)
                taken += 1
                if taken % RUN == 0:
                    channel.tx_commit()
                    self.commits += 1
        except (AMQPError, OSError):
            pass


@pytest.mark.parametrize("seed", [SEED])
def test_each_output_is_there_once_and_in_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    process = BrokerProcess(tmp_path / "data", {"ROUTELOG_FLUSH_SECONDS": "0.1"}).start()
    try:
        channel = Clients(process.url).channel()
        channel.queue_declare("outputs", durable=True)
        channel.queue_declare("inputs", durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        publish_inputs(process.url)
        for _ in range(KILLS):
            kill_at_work(process, chance)
        Doubling(process.url).start()
        outputs = Inbox(Clients(process.url).channel(), "outputs", auto_ack=True)
        for kill in range(KILLS + 1):  # the more kills, the longer it may take
            outputs.wait_for_at_least((kill + 1) * COMMITS_BETWEEN_KILLS * RUN)
        assert outputs.bodies == [b"%d" % (2 * number) for number in range(INPUTS)]
    finally:
        process.stop()


def publish_inputs(url: str) -> None:
    channel = Clients(url).channel()
    channel.tx_select()
    for number in range(INPUTS):
        channel.basic_publish("", "inputs", b"%d" % number, PERSISTENT)
    channel.tx_commit()


def kill_at_work(process: BrokerProcess, chance: random.Random) -> None:
    """Kill the broker between or within two commits, and start it again."""
    working = Doubling(process.url)
    working.start()
    enough = chance.randrange(1, COMMITS_BETWEEN_KILLS)
    wait_until(lambda: working.commits >= enough or not working.is_alive())
    assert working.is_alive()
    time.sleep(chance.uniform(0, 0.005))
    process.kill()
    working.join()
    process.start()

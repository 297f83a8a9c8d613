"""paho-mqtt against mosquitto, QoS 0, with its own network thread."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.clients.driver import CHECK, END, PING, PONG, Driver, Published, Tally


class Paho(Driver):
    def publish(self, topic: str, body: bytes, seconds: float) -> Published:
        client = self._connect()
        began, sent = time.monotonic_ns(), 0
        while time.monotonic_ns() - began < seconds * 1e9:
            for _ in range(CHECK):
                client.publish(topic, body)
            sent += CHECK
        client.publish(topic, END).wait_for_publish(60)
        ended = time.monotonic_ns()
        _close(client)
        return Published(sent, began, ended)

    def subscribe(self, topic: str, tally: Tally, ready: Callable[[], None]) -> None:
        done = threading.Event()

        def take(_client: Client, _data: Any, message: MQTTMessage) -> None:
            if tally.take(bytes(message.payload)):
                done.set()

        client = self._connect()
        _subscribe(client, topic, take)
        ready()
        done.wait()
        _close(client)

    def echo(self, ready: Callable[[], None]) -> None:
        done = threading.Event()

        def answer(client: Client, _data: Any, message: MQTTMessage) -> None:
            if message.payload == END:
                done.set()
            client.publish(PONG, message.payload)

        client = self._connect()
        _subscribe(client, PING, answer)
        ready()
        done.wait()
        _close(client)

    def ping(self, body: bytes, count: int) -> list[int]:
        answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()

        def take(_client: Client, _data: Any, message: MQTTMessage) -> None:
            answers.put(bytes(message.payload))

        client = self._connect()
        _subscribe(client, PONG, take)
        taken = []
        for _ in range(count):
            since = time.monotonic_ns()
            client.publish(PING, body)
            answers.get(timeout=5)
            taken.append(time.monotonic_ns() - since)
        client.publish(PING, END).wait_for_publish(5)
        _close(client)
        return taken

    def _connect(self) -> Client:
        client = Client(CallbackAPIVersion.VERSION2)
        connected = threading.Event()
        client.on_connect = lambda *_: connected.set()
        client.connect("127.0.0.1", self.port, keepalive=3600)
        client.loop_start()
        if not connected.wait(10):
            raise ConnectionError("mosquitto did not answer")
        return client


def _subscribe(client: Client, topic: str, take: Callable[[Client, Any, MQTTMessage], None]) -> None:
    subscribed = threading.Event()
    client.on_message = take
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe(topic, qos=0)
    if not subscribed.wait(10):
        raise ConnectionError("mosquitto did not confirm the subscription")


def _close(client: Client) -> None:
    client.disconnect()
    client.loop_stop()

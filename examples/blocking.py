"""The same without `async`, for scripts and notebooks.

stentor up
python examples/blocking.py
"""

import os

import stentor

with stentor.blocking.connect(os.environ.get("STENTOR_URL")) as fabric:
    events = fabric.subscribe("flights/#")
    fabric.publish("flights/jfk", b"UA17 is late", carrier="UA", dep_delay=75.5)
    event = events.next(timeout=10.0)
    if event is not None:
        print(f"{event.topic}: {event.body.decode()}")

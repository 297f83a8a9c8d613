"""Publish and subscribe at best effort, with a filter on the contents of events.

stentor up
python examples/best_effort.py
"""

import asyncio
import os

import stentor


async def main() -> None:
    async with (
        stentor.connect(os.environ.get("STENTOR_URL")) as fabric,
        fabric.subscribe("flights/#", where="carrier = 'UA' AND dep_delay > 60") as events,
    ):
        await events.settled()  # every broker knows it: nothing that is published from here on is missed
        await fabric.publish("flights/jfk", b"on time", carrier="UA", dep_delay=0.0)
        await fabric.publish("flights/ewr", b"an hour late", carrier="UA", dep_delay=75.0)
        async for event in events:
            print(f"{event.topic}: {event.body.decode()}, {event['dep_delay']:.0f} minutes")
            break


asyncio.run(main())

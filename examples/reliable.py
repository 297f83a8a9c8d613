"""Store events until every named subscriber has them, whatever dies meanwhile.

stentor up
python examples/reliable.py
"""

import asyncio
import os

import stentor


async def main() -> None:
    async with stentor.connect(os.environ.get("STENTOR_URL")) as fabric:
        async with fabric.as_operator() as operator, stentor.Registrar(operator) as registrar:
            await registrar.create("orders")
            await registrar.grant("orders", "publisher", "shop")
            await registrar.grant("orders", "subscriber", "billing")
        async with fabric.publisher("orders", name="shop") as shop:
            stored = await shop.send(b"2 apples", price=3.5)  # returns when it is stored
            await shop.send(b"1 pear", price=0.9)
        print(f"stored, {stored.copies} copy")
        async with fabric.subscribe("orders", name="billing", from_="beginning", where="price > 2") as events:
            async for event in events:  # acknowledged when the next one is asked for
                print(f"{event.body.decode()} for {event['price']}")
                break


asyncio.run(main())

"""The scenes in which the network itself is changed: a link goes and comes back by plans, and memory is damaged."""

import asyncio
from contextlib import AsyncExitStack

from stentor.admin import network as operation
from stentor.cli.network.healing import Healing, Watch
from stentor.cli.network.links import LinkIntent, change_link
from stentor.cli.network.search import Search
from stentor.model.colours.memory_part import MemoryPart
from stentor.model.messages import AdminTask

_PARTS = (MemoryPart.ROUNDS, MemoryPart.POINTERS, MemoryPart.MEMBERS, MemoryPart.ROUTES, MemoryPart.PROFILES)
_SEED = 7


async def rebuild(url: str, one: str, other: str) -> float:
    """Take the link between two brokers away and put it back; return the seconds that the two plans took."""
    loop, search = asyncio.get_running_loop(), Search(url, None)
    start = loop.time()
    await change_link(search, one, other, LinkIntent.REMOVE)
    await change_link(Search(url, None), one, other, LinkIntent.ADD)
    return loop.time() - start


async def damage(url: str, names: tuple[str, ...], victim: str) -> Healing:
    """Damage what a broker remembers, and wait until the network has healed itself."""
    search = Search(url, None)
    async with AsyncExitStack() as held:
        found = [await search.find(name) for name in names]
        fabrics = {each.name: await held.enter_async_context(search.connect(each.address)) for each in found}
        watch = Watch(names[0], fabrics)
        bound = await watch.begin()
        await operation.order(fabrics[victim], AdminTask.CORRUPT, " ".join(_PARTS), count=_SEED)
        return await watch.heal(bound, None)

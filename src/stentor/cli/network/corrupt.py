"""`stentor corrupt`: damages what brokers of a running network remember, and watches the network heal itself."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Annotated

import msgspec
import typer

from stentor.admin import network as operation
from stentor.admin.survey import Survey, survey
from stentor.cli.network.healing import Healing, Watch
from stentor.cli.network.route import check_broker
from stentor.cli.network.search import Search
from stentor.cli.terminal.options import TlsOption, TokenOption, UrlOption, WaitOption
from stentor.cli.terminal.printable import print_json, printable
from stentor.client.fabric import Fabric
from stentor.model.colours.memory_part import ALL, LAST_SEED, MemoryPart, check_seed, parse_damage
from stentor.model.errors import InvalidInput, Refused, StentorError
from stentor.model.messages import AdminTask
from stentor.model.wording.count import counted

_MOST_PARTS = 3  # that are drawn if nobody names any
_SHOWN = 5  # troubles


class DamagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is damaged, and where."""

    seed: int
    parts: tuple[MemoryPart, ...]
    brokers: tuple[str, ...]


class DamageOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was damaged, and how the network healed."""

    damage: DamagePlan
    healing: Healing


def corrupt(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PARTS]...",
            help=f"What to damage: {', '.join(MemoryPart)}, or {ALL}.",
            show_default="some, drawn from the seed",
        ),
    ] = None,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            help="A broker to damage; may be given repeatedly.", show_default="some of all, drawn from the seed"
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=f"0 to {LAST_SEED}: the same seed does the same damage.", show_default="any")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="How long it may take.", show_default="the bound that the network computes"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="What was damaged and how it healed, as JSON.")] = False,
    url: UrlOption = None,
    tls: TlsOption = None,
    token: TokenOption = None,
    wait: WaitOption = 0.0,
) -> None:
    """Damage what brokers remember, and wait until the network has healed itself; for networks to experiment with.

    Brokers refuse unless they were started with --chaos. Parts and brokers that are not named are drawn from the seed.
    The network has healed when every scope is in its correct state, every broker finds a way to every other one and
    knows what others want, and this has been so for three rounds. Exit codes: 0 it has healed, 1 it has not within the
    bound, 4 brokers refuse.
    """
    if seed is not None:
        check_seed(seed)
    if within is not None and not within > 0:
        raise InvalidInput(f"--within {within:g}: expected more than 0 seconds")
    named = parse_damage(parts) if parts else None
    found = asyncio.run(survey(url, tls, wait=wait))
    for name in broker or found.brokers:
        check_broker(found, name)
    damage = draw_damage(
        Random().randrange(LAST_SEED + 1) if seed is None else seed, named, broker, list(found.brokers)
    )
    report = asyncio.run(_run(Search(url, tls, wait, token), found, damage, within, is_quiet=json))
    if json:
        print_json(report)
    if report.healing.troubles:
        _complain(report, is_quiet=json)
    if not json:
        typer.echo(_said(report.healing))


def draw_damage(
    seed: int, parts: tuple[MemoryPart, ...] | None, brokers: Sequence[str] | None, known: Sequence[str]
) -> DamagePlan:
    """Return what a seed damages, where nobody says it."""
    draw = Random(seed)
    some = draw.sample(list(MemoryPart), draw.randint(1, _MOST_PARTS))
    where = draw.sample(sorted(known), draw.randint(1, len(known)))
    return DamagePlan(
        seed=seed,
        parts=parts or parse_damage(some),
        brokers=tuple(dict.fromkeys(brokers)) if brokers else tuple(sorted(where)),
    )


async def _run(
    search: Search, found: Survey, damage: DamagePlan, within: float | None, *, is_quiet: bool
) -> DamageOutcome:
    async with AsyncExitStack() as held:
        fabrics = {
            name: await held.enter_async_context(search.connect(each.address)) for name, each in found.brokers.items()
        }
        watch = Watch(found.origin, fabrics)
        bound = await watch.begin()
        await asyncio.gather(*(_order(name, fabrics[name], damage) for name in damage.brokers))
        if not is_quiet:
            typer.echo(
                printable(f"seed {damage.seed}: damaged {', '.join(damage.parts)} of {', '.join(damage.brokers)}")
            )
        return DamageOutcome(damage=damage, healing=await watch.heal(bound, within))


async def _order(name: str, fabric: Fabric, damage: DamagePlan) -> None:
    try:
        await operation.order(fabric, AdminTask.CORRUPT, " ".join(damage.parts), count=damage.seed)
    except Refused as error:
        raise Refused(error.code, f"{name} refuses: {error.reason}") from None


def _said(healing: Healing) -> str:
    after = f"after {counted(healing.rounds, 'round')} and {healing.seconds:.1f} s"
    return f"the network is in its correct state: it was {after}; the bound is {healing.bound:.1f} s"


def _complain(report: DamageOutcome, *, is_quiet: bool) -> None:
    """End with 1, and with words unless they were told as JSON."""
    if is_quiet:
        raise typer.Exit(1)
    healing, damage = report.healing, report.damage
    shown = list(healing.troubles[:_SHOWN])
    if len(healing.troubles) > _SHOWN:
        shown.append(f"and {len(healing.troubles) - _SHOWN} more")
    where = " ".join(f"--broker {name}" for name in damage.brokers)
    raise StentorError(
        f"the network has not healed in {healing.limit:.1f} s (the bound is {healing.bound:.1f} s):\n  "
        + "\n  ".join(shown)
        + f"\n`stentor corrupt {' '.join(damage.parts)} {where} --seed {damage.seed}` does the same damage again"
    )

"""The smallest HTTP client that can be: one request, one answer."""

import asyncio
import re

from prometheus_client.parser import text_string_to_metric_families

Sample = tuple[str, tuple[tuple[str, str], ...]]


async def get(port: int, path: str) -> tuple[int, str]:
    """Status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


async def scrape(port: int) -> dict[Sample, float]:
    """A node's metrics, by name and labels, as Prometheus would read them."""
    status, text = await get(port, "/metrics")
    assert status == 200
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"[A-Z].*\.", family.documentation), (
            f"{family.name} has no sentence: {family.documentation}"
        )
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} twice: Prometheus refuses all of it"
            found[key] = sample.value
    return found

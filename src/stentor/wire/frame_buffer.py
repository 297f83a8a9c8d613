"""The receiving end of a link: chunks cut anywhere go in, data that begins at a frame comes out."""

from stentor.wire.frame import LENGTH, MEASURABLE


class FrameBuffer:
    """Holds the beginning of a frame whose rest has not come. Parts are joined once, never piece by piece."""

    __slots__ = ("_held", "_needed", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._needed = 0

    def take(self, data: bytes) -> bytes | None:
        """The chunk with what was held before it; None while the frame in front is still incomplete."""
        if not self._held:
            return data
        self._parts.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return None
        whole = b"".join(self._parts)
        self._parts.clear()
        self._held = self._needed = 0
        return whole

    def hold(self, data: bytes, position: int) -> None:
        """Keep what is left from `position`, which `measure` has seen, until more comes."""
        rest = data[position:]
        if rest:
            self._parts.append(rest)
            self._held = len(rest)
            self._needed = LENGTH.unpack_from(rest)[0] if len(rest) >= MEASURABLE else MEASURABLE

    def __len__(self) -> int:
        return self._held

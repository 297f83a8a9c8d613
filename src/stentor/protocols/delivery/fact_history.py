"""The last changes of a registry: whoever knew all of it a while ago is told these, and not asked what it knows."""

_MOST = 1024  # changes: who has missed more compares everything, which then costs no more than telling them


class FactHistory:
    """Which facts were registered one after the other."""

    def __init__(self) -> None:
        # What the digest of all facts was before a change, and the key of the fact that it concerned; the newest last.
        # Facts only get newer, so no digest is there twice.
        self._changes: dict[int, str] = {}

    def note(self, before: int, key: str) -> None:
        self._changes[before] = key
        if len(self._changes) > _MOST:
            del self._changes[next(iter(self._changes))]

    def since(self, digest: int) -> set[str] | None:
        """Return the keys of what was registered since all facts had this digest; None if that is not known."""
        if digest not in self._changes:
            return None
        keys: set[str] = set()
        for before, key in reversed(self._changes.items()):
            keys.add(key)
            if before == digest:
                break
        return keys

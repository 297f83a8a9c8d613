"""What every message is: a tagged array on the wire."""

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A tagged array on the wire: fields may be added at the end, none is ever reused."""

    @property
    def tag(self) -> str:
        """How this message is called on the wire, and to a peer that is told about it: both sides know this name."""
        return str(self.__struct_config__.tag)

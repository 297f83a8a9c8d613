"""Subjects: who wants to publish, subscribe, send or take a name."""

from collections.abc import Iterator

import msgspec

from stentor.model.trust.place import REPOSITORY_NAME

_ENDS = ("publisher:", "subscriber:")  # how the names of ends of reliable topics begin


class Subject(msgspec.Struct, frozen=True):
    """What somebody's certificate proved, and the name under which it is connected."""

    principal: str
    name: str = ""
    is_node: bool = False
    attributes: frozenset[str] = frozenset()  # of the certificate's subject, such as OU=trading

    @property
    def repository(self) -> str:
        """The name of the repository that this is; "" if it is none."""
        return self.name.removeprefix(REPOSITORY_NAME) if self.is_node and self.name.startswith(REPOSITORY_NAME) else ""

    def topics_of_end(self) -> Iterator[str]:
        """Yield the reliable topics whose publisher or subscriber this may be: a colon may be part of a name."""
        if self.name.startswith(_ENDS):
            rest = self.name.partition(":")[2]
            while ":" in rest:
                rest = rest.partition(":")[2]
                yield rest

    def end_of(self, role: str, topic: str) -> str:
        """Return the name under which this is a publisher or subscriber of a reliable topic; "" if it is none."""
        before, after = f"{role}:", f":{topic}"
        is_end = self.name.startswith(before) and self.name.endswith(after) and len(self.name) > len(before + after)
        return self.name[len(before) : -len(after)] if is_end else ""

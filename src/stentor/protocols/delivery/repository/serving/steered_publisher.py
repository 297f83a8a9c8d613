"""A publisher as the repository knows it that steers it."""


class SteeredPublisher:
    """Where it is answered, and what it was told."""

    __slots__ = ("acknowledged", "attempt", "id", "inbox", "incarnation", "is_answered", "name")

    def __init__(self, number: int, name: str, inbox: str, incarnation: int, attempt: int) -> None:
        self.id = number
        self.name = name
        self.inbox = inbox
        self.incarnation = incarnation
        self.attempt = attempt
        self.acknowledged: tuple[int, ...] = ()
        self.is_answered = False  # it knows that we steer it

"""The fabric's token: a secret of its nodes and operators, which is proved on links without TLS and never sent.

Both sides of a greeting draw a nonce, so what was proved on one link proves nothing on another. The two sides prove
different texts, so neither can hand the other's proof back, and the text names the role and the name that the dialler
asks for, so that a proof is good for nothing else.
"""

import hmac

import msgspec

NONCE_BYTES = 16
_DIALLER, _BROKER = b"stentor dialler", b"stentor broker"


class FabricToken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The secret itself, which no log line shows."""

    value: bytes

    def __repr__(self) -> str:
        return "FabricToken(…)"

    def dialler_proof(self, challenge: bytes, nonce: bytes, role: str, name: str) -> bytes:
        """Return what proves to a broker, which drew the challenge, that the dialler knows the token."""
        return self._proof(_DIALLER, challenge, nonce, role.encode(), name.encode())

    def broker_proof(self, challenge: bytes, nonce: bytes, node: str) -> bytes:
        """Return what proves to the dialler, which drew the nonce, that the broker knows the token."""
        return self._proof(_BROKER, challenge, nonce, node.encode())

    def _proof(self, *parts: bytes) -> bytes:
        text = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
        return hmac.digest(self.value, text, "sha256")


def is_same(proof: bytes, expected: bytes) -> bool:
    """Compare in a time that does not tell how much of it was right."""
    return hmac.compare_digest(proof, expected)

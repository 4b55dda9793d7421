"""One record for each encoding, and the choice among those that hold the same page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Literal, NamedTuple, TypeVar

from projseg.segment_format.encodings.encoding_protocols import Offer

ValueKind = Literal["integers", "wide integers", "floats", "text", "nested"]
Codec = TypeVar("Codec")


class Encoding(NamedTuple, Generic[Codec]):
    """One encoding: its number, name, codec and cost.

    Parameters
    ----------
    number : int
        As pages state it. An encoding of two kinds has a record for each.
    name : str
        For people.
    kind : ValueKind
        Of the values it holds.
    section : str
        The section of SPEC.md that specifies it.
    codec : IntegerEncoding, FloatEncoding, ...
        Estimates, encodes and decodes; the protocol of the kind.
    weight : float
        Cost of reading one of its bytes, relative to a byte that is only copied. Sizes are compared
        weighted, so that a page is not made slow for a few bytes.
    """

    number: int
    name: str
    kind: ValueKind
    section: str
    codec: Codec
    weight: float = 1.0


class Chosen(NamedTuple):
    """The number of the encoding that won, and its offer."""

    number: int
    offer: Offer

    def encode(self) -> tuple[int, bytes]:
        """Return the number and the bytes."""
        return self.number, self.offer.make()


def least(candidates: Iterable[tuple[Encoding[Codec], Offer | None]]) -> Chosen:
    """Return the candidate of the least weighted size, of equal ones the first."""
    best: tuple[float, Chosen] | None = None
    for encoding, offer in candidates:
        if offer is None:
            continue
        weighted = offer.byte_count * encoding.weight
        if best is None or weighted < best[0]:
            best = weighted, Chosen(encoding.number, offer)
    assert best is not None, "one encoding of each kind holds any page"
    return best[1]

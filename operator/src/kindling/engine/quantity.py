"""Resource quantities ("1", "1000m", "1Gi") as numbers, since the API server rewrites how they are spelt."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)


def quantity(value: object) -> Decimal:
    """The number a quantity stands for.

    :raises ValueError: when it is not a quantity.
    """
    number = None if isinstance(value, bool) else _number(str(value))
    if number is None:
        raise ValueError(f"{value!r} is not a quantity: write a number with a suffix such as m, Mi or Gi")
    return number


@lru_cache(maxsize=4096)
def _number(text: str) -> Decimal | None:
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    if exponent:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIX[suffix or ""]

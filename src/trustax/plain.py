"""Values as strict JSON can hold them."""

import math
from typing import Any


def plain(value: Any) -> Any:
    """The same value out of lists, dictionaries and what JSON knows; infinity as the text that `float` reads.

    >>> plain({"low": (-math.inf, 0.5), "count": 2})
    {'low': ['-inf', 0.5], 'count': 2}
    """
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value

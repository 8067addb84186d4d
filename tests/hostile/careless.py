"""The rules of worker.py on a careless function, which must fail each of them."""

import json
from typing import Any

import numpy as np
import table
import worker


def careless(*, x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.writeable:
        x.fill(3.0)
    if isinstance(x, str):
        raise ValueError("something is wrong")
    if isinstance(x, float) and x == 0:
        return 1 / x
    return float("nan") if isinstance(x, int) else 0.5


worker.PUBLIC["careless"] = careless
runner = worker.Runner()
runner.hostile(table.Base("careless", lambda: (careless, {"x": 0.5})), "x", "number", False)
print(json.dumps({"begin": "careless"}))
print(
    json.dumps({"end": "careless", "cases": runner.count, "refused": 0, "long": [], "failures": runner.failures})
)

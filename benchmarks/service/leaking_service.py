"""A service that gives a person away by its work: `python -m benchmarks.service.leaking_service CONFIG SECONDS`.

Reading rows takes so many seconds longer where the person is present. It shows that the timing test can see, and what
padding hides.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import uvicorn

from benchmarks.service.neighboring_datasets import PRESENT
from discreet.custodian import measure
from discreet.service.app import make_app
from discreet.service.config import read_config


def slow_down_for_present(seconds: float) -> None:
    """From now on, the first look at the rows of `present` takes longer."""
    count_units = measure.count_key_units

    def count_slowly(plan: Any, source: Any) -> Any:
        if plan.schema.name == PRESENT:
            time.sleep(seconds)
        return count_units(plan, source)

    measure.count_key_units = count_slowly


if __name__ == "__main__":
    config = read_config(sys.argv[1])
    slow_down_for_present(float(sys.argv[2]))
    uvicorn.run(make_app(config), port=config.port, http="h11", log_config=None, access_log=False)

"""pycanon: k, l and t of the tables named: `... FOLDER NAME ...`."""

from __future__ import annotations

import json
import sys
import time

import pandas as pd
from pycanon import anonymity

from benchmarks.anonymity.task import QUASI, SECRET, locate_release

if __name__ == "__main__":
    measures = {}
    for name in sys.argv[2:]:
        frame = pd.read_csv(locate_release(name))
        start = time.perf_counter()
        k, distinct = anonymity.k_anonymity(frame, list(QUASI)), anonymity.l_diversity(frame, list(QUASI), [SECRET])
        t = anonymity.t_closeness(frame, list(QUASI), [SECRET])
        measures[name] = {"k": int(k), "l": int(distinct), "t": float(t), "seconds": time.perf_counter() - start}
    print(json.dumps(measures))

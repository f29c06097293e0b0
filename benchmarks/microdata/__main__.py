"""Print every line; fail where a bar is missed."""

import sys

from benchmarks.measure import report
from benchmarks.microdata import grouping, linkage, memory, sorting, streaming

if __name__ == "__main__":
    sys.exit(report(grouping.run, sorting.run, memory.run, linkage.run, streaming.run))

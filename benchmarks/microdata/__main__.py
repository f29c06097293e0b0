"""Print every line; fail where a bar is missed."""

import sys

from benchmarks.measure import report
from benchmarks.microdata import individual_ranking, linkage, mdav, memory, streaming_release

if __name__ == "__main__":
    sys.exit(report(mdav.run, individual_ranking.run, memory.run, linkage.run, streaming_release.run))

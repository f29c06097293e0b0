"""Speed and memory of microaggregation and of record linkage: `python -m benchmarks.microdata`.

Times are of the processor on one core, after compilation, the least of several; records are four standard normal
numbers and k is 10.
"""

"""Speed of answers: discreet beside plain DuckDB and five peers, on the same tables, in one run.

`python -m benchmarks.query [--rows 1000000 10000000]`. Every contestant is a process of its own, the peers in virtual
environments of their own; all hold the table in the way that suits them best, and are asked the same questions in turn.
No constant is used twice, so nobody can answer from memory.
"""

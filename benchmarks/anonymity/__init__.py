"""k-anonymity and t-closeness beside anjana, and claims measured beside pycanon, on one table.

`python -m benchmarks.anonymity [--rows 10000]`. Every contestant is a process of its own that reads the same CSV
file and writes what it would release. anjana and discreet's `generalise` have the same hierarchies, k and allowance for
suppression; discreet's `mdav_id` has groups in place of hierarchies. discreet has no generalisation to a t of the earth
mover's distance: its `t_close` promises another distance, so anjana's t-close table has no opponent here.
"""

"""Error of answers: discreet beside five peers on the same table, with what a prior adds and what intervals cover.

`python -m benchmarks.error`. Root mean square over many runs, every contestant under the promise it makes itself:
opendp, python-dp, smartnoise-sql and tumult hide that one row was added or removed; diffprivlib hides what one row
holds, the number of rows being public. discreet registers the table under both relations and is compared under the
same one.
"""

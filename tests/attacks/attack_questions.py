"""Questions that attackers ask: harmless ones, and some that fail where the target is among the rows."""

from __future__ import annotations

HARMLESS = (
    "SELECT COUNT(*) AS n FROM t WHERE age = 37",
    "SELECT SUM(age) AS n FROM t WHERE town = 'Hammerfest'",
    "SELECT AVG(age) AS n FROM t WHERE age = 37 AND ill",
    "SELECT MEDIAN(age) AS n FROM t WHERE town = 'Hammerfest'",
    "SELECT town, COUNT(*) AS n FROM t GROUP BY town",
)
HOSTILE = (
    "SELECT COUNT(*) AS n FROM t WHERE age // (age - 37) >= 0",
    "SELECT COUNT(*) AS n FROM t WHERE CASE WHEN age = 37 THEN CAST(town AS INTEGER) ELSE 1 END = 1",
    "SELECT COUNT(*) AS n FROM t WHERE age <> 37 OR error(person) IS NULL",
    "SELECT COUNT(*) AS n FROM t WHERE age <> 37 OR CAST(person AS DATE) IS NULL",
    "SELECT SUM(CASE WHEN age = 37 THEN 9223372036854775807 + age ELSE 0 END) AS n FROM t",
)
"""Division by zero, two bad casts, an error on purpose, an overflow."""

"""Every benchmark: its name, what it is about, and how it is started, in full and small."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """`python -m benchmarks.NAME`, with what is said beside its figures."""

    name: str
    title: str
    words: str
    full: tuple[str, ...] = ()
    small: tuple[str, ...] = ()

    def command(self, small: bool) -> list[str]:
        """Without the interpreter."""
        return ["-m", f"benchmarks.{self.name}", *(self.small if small else self.full)]


PROGRAMS = (
    Program(
        "query",
        "Speed of answers",
        "One table, six questions, no constant twice. Every contestant is a process of its own and holds the table in "
        "the way that suits it best; all are asked in turn. For discreet the time is from SQL to an answer that is "
        "charged and stored on the disk; the others keep no account on a disk. The table is protected against one row "
        "more or less, at epsilon 0.1, but for diffprivlib, whose means take as public how many rows each "
        "question, and each region of it, selects, and so protect less. `opendp, scaled` "
        "leaves out its search for the noise, which no guide tells one to do. DuckDB answers without privacy, and is "
        "the floor. Arrays in memory with noise from floating point are faster than a database with an account, and "
        "the tables say by how much.",
        ("--rows", "1000000"),
        ("--rows", "100000"),
    ),
    Program(
        "growth",
        "Growth with the rows",
        "The same contestants on tables that are ten times longer each time. A contestant that takes too long to load "
        "or to answer is left out of the next size. Constant costs (parsing, planning, the charge on the disk) hide "
        "the rows in small tables, so the last two sizes are the most informative. 100 million rows are for DuckDB and "
        "discreet alone.",
        ("--large",),
        ("--sizes", "10000", "100000", "1000000"),
    ),
    Program(
        "error",
        "Error of answers",
        "2,000 rows, and the root mean square error of many answers at the same epsilon. The relation is in brackets: "
        "where it is replace-one the number of rows is public, and tumult, smartnoise-sql and python-dp have no such "
        "question. tumult and smartnoise-sql are slow to answer, so they answer for 200 copies of the table at once, "
        "one group each: the noise is the same. Level is who is nearer than three standard errors: some have few "
        "runs. What is not asked of a library it has no call for under that relation, or one with twice the noise. "
        "Without `--quick` there are also bars for what priors add and for how often intervals hold.",
        ("--quick",),
        ("--quick",),
    ),
    Program(
        "spark",
        "The same plans on Spark",
        "One table of Parquet files, registered with DuckDB and with Spark on two cores of this machine. Every plan's "
        "exact numbers, before any noise, are compared to the last integer. On one machine Spark loses: it is for "
        "tables that do not fit one.",
        (),
        ("--rows", "100000", "1000000"),
    ),
    Program(
        "anonymity",
        "k-anonymity and t-closeness beside anjana and pycanon",
        "The sample registry, the same quasi-identifiers, hierarchies, k and allowance for suppression. What each "
        "releases is measured with one yardstick. Then pycanon and discreet measure the same released tables, and "
        "must agree where the definitions do. discreet is timed without its first compilation. mdav_id is another kind "
        "of release than anjana's generalisation, which keeps true, coarser values; only generalise is like for like.",
        (),
        ("--rows", "5000"),
    ),
    Program(
        "microdata",
        "Microaggregation beside a naive compiled MDAV",
        "Records of four standard normal numbers, k = 10, one core, time on the processor. The naive algorithm is "
        "compiled too and makes the same groups.",
    ),
    Program(
        "private_microdata",
        "Private files beside MST",
        "Synthetic and other differentially private files beside MST of smartnoise-synth, on the same bins at the same "
        "epsilon and delta. Two faults of the peer are corrected first, so that they do not count against it.",
        ("--quick",),
        ("--quick",),
    ),
    Program("ranges", "Ranges of a histogram", "Mean square error over all ranges, beside opendp's tree."),
    Program("kernel", "The kernel", "Draws, refined answers and medians by themselves, some beside opendp."),
    Program("refinement", "What must be true", "Fitting 100,000 noisy numbers to what holds of every table."),
    Program("planner", "Planning", "From schema, question and prior to a plan; no row is read."),
    Program("ledger", "The ledger", "Durable charges: sixteen clients at once, and a million entries beside none."),
    Program(
        "service",
        "The service",
        "Sixteen clients over HTTP: at fifty answers a second, then flat out.",
        ("--seconds", "10"),
        ("--rows", "100000", "--seconds", "5"),
    ),
    Program("audit", "Audits", "A million draws with each of two neighbours."),
)

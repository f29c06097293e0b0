"""The only place where rows, plan and ledger meet.

Plan from public facts, charge durably, then read rows, draw, store durably, then reply. No refunds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Unpack

from discreet.answers.answer import Answer
from discreet.answers.decode import decode_result, parse_result, serialize_result
from discreet.answers.explain import FREE, build_public_answer, explain_result
from discreet.custodian.measure import degrade_result, do_nothing, sample_noisy_outputs, scan_rows
from discreet.custodian.preview import Preview, preview_question
from discreet.custodian.session import CountingSession, SessionLog, start_counting_session
from discreet.custodian.validation import (
    DEFAULT_ANALYST,
    build_plan_charge,
    find_max_epsilon,
    list_balances,
    validate_plan,
    validate_request,
)
from discreet.datasets.dataset_dir import Snapshot, open_bound_ledger
from discreet.datasets.integrity import (
    LazySource,
    Progress,
    TrackedFiles,
    ensure_snapshot,
    ignore_stage,
    open_source,
    require_current,
    stat_files,
)
from discreet.datasets.registration import register_snapshot
from discreet.errors import DiscreetError, Internal, InvalidInput, Unavailable
from discreet.ledger import Balance, Caps, Entry, Ledger
from discreet.ledger.charge import LedgerVerification, Receipt
from discreet.planner.domain_partition import LARGE_REPLY_NUMBERS, MAX_LARGE_ANSWERS
from discreet.planner.options import (
    PlanRequest,
    QueryKeywords,
    QueryOptions,
    build_plan_request,
    build_query_options,
)
from discreet.planner.plan import NoisyResult, Plan
from discreet.planner.planner import plan_question, replan_query
from discreet.query import Question, parse_question, to_sql
from discreet.query.query import count_answer_numbers
from discreet.release.assess import run_sweep
from discreet.release.files import ReleaseTargets
from discreet.release.manifest import Release
from discreet.release.methods import (
    ReleaseMethod,
    SyntheticMethod,
    SyntheticRecipe,
    build_method,
    build_synthetic_recipes,
)
from discreet.release.publish import DatasetHandle, publish_protected
from discreet.release.publish_synthetic import plan_synthetic_files, publish_synthetic
from discreet.schema import Budget, Schema, load_schema
from discreet.schema.loader import locate_schema
from discreet.untrusted import copy_text

if TYPE_CHECKING:
    from discreet.sdc.sweep import SweepResult
    from discreet.sources.protocol import Source
    from discreet.synthetic.file_plan import SyntheticPlan


class Custodian(AbstractContextManager["Custodian"]):
    """One data set and its ledger: the only place where rows, plan and ledger meet.

    Open it with `Custodian.open`; close it, or use it in a `with` statement. Every answer is charged before a row is
    read.

    Args:
        schema: The public description of the table.
        snapshot: The registered rows.
        source: The engine that holds them.
        ledger: The ledger that answers are charged to.
        note: A warning that every answer repeats.
        schema_file: The files that the schema was loaded from.

    Example:
        >>> from pathlib import Path
        >>> from discreet import Custodian
        >>> from discreet.sample import write_registry
        >>> with Custodian.open(write_registry(Path("."), patients=100)) as custodian:
        ...     first = custodian.answer("SELECT COUNT(*) FROM registry WHERE smoker", epsilon=0.5)
        ...     again = custodian.answer("SELECT COUNT(*) FROM registry WHERE smoker", epsilon=0.5)
        >>> first.value == again.value, again.cost.epsilon  # the stored answer costs nothing
        (True, Fraction(0, 1))
    """

    def __init__(
        self,
        schema: Schema,
        snapshot: Snapshot,
        source: Source,
        ledger: Ledger,
        note: str | None = None,
        schema_file: TrackedFiles | None = None,
    ) -> None:
        self.schema, self._snapshot, self._source, self._ledger = schema, snapshot, source, ledger
        self._note, self._schema_file = note, schema_file
        self._caps = Caps(schema.budget, schema.analyst_budget, schema.models)
        self._payable_caps = self._caps
        self._can_measure = True
        self._release_barrier: Callable[[], None] = do_nothing
        self._large_answer_slots = BoundedSemaphore(MAX_LARGE_ANSWERS)

    @staticmethod
    def open(
        schema: str | Path,
        ledger: str | Path | None = None,
        source: object = None,
        progress: Progress = ignore_stage,
        wait: float = 10,
        reading: bool = True,
    ) -> Custodian:
        """Open a data set by its schema file; it is registered on first use.

        `ledger` is a file or a database address; without it, a file in the data set's own folder. `source` stands in
        for the schema's at registration: a path, an address, or a pandas, Polars or Arrow table. `wait` is for how many
        seconds a ledger that others hold is waited for. Without `reading` the rows are opened once a question needs
        them, if one ever does.
        """
        return Custodian._open(schema, ledger, source, progress, wait, reading)

    @staticmethod
    def _open(
        schema: str | Path,
        ledger: str | Path | None = None,
        source: object = None,
        progress: Progress = ignore_stage,
        wait: float = 10,
        reading: bool = True,
        before_registering: Callable[[Schema], object] | None = None,
    ) -> Custodian:
        """Do what `open` does; `before_registering` may refuse by an error before a first registration."""
        schema_file = _stat_schema_file(schema)
        loaded_schema = load_schema(schema)
        snapshot = ensure_snapshot(loaded_schema, source, progress, before_registering)
        open_rows = partial(open_source, loaded_schema, snapshot, source if isinstance(source, str) else None)
        opened_source = open_rows() if reading else LazySource(open_rows)
        try:
            opened_ledger = open_bound_ledger(loaded_schema, ledger, wait)
            return Custodian(loaded_schema, snapshot, opened_source, opened_ledger, schema_file=schema_file)
        except DiscreetError:
            opened_source.close()
            raise

    @staticmethod
    def check(
        schema: str | Path,
        source: object = None,
        name: str | None = None,
        disjoint: bool = False,
        progress: Progress = ignore_stage,
    ) -> Snapshot:
        """Register a new snapshot; spend carries over unless no unit is in both (`disjoint`)."""
        return register_snapshot(load_schema(schema), source, name, disjoint, progress)

    @staticmethod
    def rehearse(schema: str | Path, folder: str | Path | None = None) -> Custodian:
        """Open a made-up table of the same schema: nothing is charged, and the rows are not opened.

        Its units, for questions about one person, are "1", "2", ... The table and its ledger are kept in `folder`, for
        any number of processes; without one, in a folder that is removed on closing.
        """
        from discreet.custodian.rehearsal import REHEARSAL_NOTE, open_rehearsal

        schema_file = _stat_schema_file(schema)
        rehearsal = open_rehearsal(load_schema(schema), folder)
        return Custodian(
            rehearsal.schema, rehearsal.snapshot, rehearsal.source, rehearsal.ledger, REHEARSAL_NOTE, schema_file
        )

    def answer(
        self,
        question: Question,
        epsilon: object = None,
        *,
        analyst: str = DEFAULT_ANALYST,
        **options: Unpack[QueryKeywords],
    ) -> Answer:
        """Answer, or refuse before anything is charged or read.

        Args:
            question: The question, as SQL text.
            epsilon: Privacy budget for the answer; `accuracy` or `noise_scale` may be given instead.
            analyst: Who asks, and pays.
            **options: All else that may be said about a question: the fields of `QueryOptions`, which says what each
                of them means.

        Returns:
            The answer. The same question again returns the stored answer and costs nothing.

        Raises:
            InvalidInput: The question or an option cannot be used.
            BudgetExceeded: The data set or the analyst cannot pay.
            Unsupported: Nothing that can be proven answers this question.
            Unavailable: The rows or the ledger cannot be reached; what was charged stays charged.
        """
        return self._charge_and_measure(question, build_query_options(epsilon, **options), analyst)()

    def _charge_and_measure(
        self, question: Question, options: QueryOptions, analyst: str, plot: bool = False
    ) -> Callable[[], Answer]:
        """Take a question through its stages, each once and in order; docs/architecture.md has the picture.

        The scan and the measuring are in `_make_outputs`, since a stored answer needs neither. Decoding and explaining
        are done by what is returned: an answer takes most memory, and can wait for its turn.
        """
        analyst = copy_text(analyst, "analyst")
        request = self._build_request(options, analyst)
        query = parse_question(question, self.schema)
        planned = plan_question(self.schema, query, request, partial(self._has_offer, request, analyst))
        validate_plan(planned, request, plot)
        sql = to_sql(planned.query, self.schema)
        if planned.is_free:
            return lambda: build_public_answer(planned, sql, self._get_spent_epsilon()).with_note(self._note)
        if self._can_measure:
            self._require_current()
        charge = build_plan_charge(planned, sql, self._snapshot.name, analyst, request)
        receipt = self._ledger.charge(charge, self._payable_caps)
        try:
            with self._wait_for_slot(planned, receipt):
                outputs = receipt.answer or self._make_outputs(planned, receipt)
        finally:
            self._release_barrier()
        stored = receipt.answer or self._ledger.store(self.schema.name, receipt.entry, outputs)
        spent_epsilon = self._get_spent_epsilon()

        def finish() -> Answer:
            drawn_plan, noisy_result = self._read_stored(planned, request, stored)
            paid_epsilon = drawn_plan.epsilon if receipt.charged else FREE
            decoded = decode_result(drawn_plan, noisy_result, sql)
            sums = paid_epsilon, receipt.entry, spent_epsilon
            return explain_result(drawn_plan, decoded, sql, *sums, request.constraints).with_note(self._note)

        return finish

    def validate(self, question: Question, options: QueryOptions, analyst: str = DEFAULT_ANALYST) -> Plan:
        """Plan a question, or refuse whatever can be refused before the charge: nothing is charged or read.

        An accuracy may cost what is left to both payers in its model; one that costs more is planned only where a
        stored answer has it.
        """
        analyst = copy_text(analyst, "analyst")
        request = self._build_request(options, analyst)
        return validate_request(self.schema, question, request, partial(self._has_offer, request, analyst))

    def _build_request(self, options: QueryOptions, analyst: str) -> PlanRequest:
        """Copy the options of a question; an accuracy gets the most that it may cost."""
        request = build_plan_request(options)
        if request.accuracy is None:
            return request
        return replace(request, max_epsilon=find_max_epsilon(request, self.budget(analyst)))

    def _has_offer(self, request: PlanRequest, analyst: str, planned: Plan) -> bool:
        charge = build_plan_charge(planned, "a question", self._snapshot.name, analyst, request)
        return self._ledger.find_offer(charge) is not None

    def preview(
        self,
        question: Question,
        epsilon: object = None,
        *,
        analyst: str = DEFAULT_ANALYST,
        **options: Unpack[QueryKeywords],
    ) -> Preview:
        """Return what the question would cost, its accuracy, what is left, and how many more such questions fit.

        It takes what `answer` takes, and refuses what `answer` would refuse; nothing is charged or read.
        """
        return self._preview(question, build_query_options(epsilon, **options), analyst)

    def _preview(self, question: Question, options: QueryOptions, analyst: str) -> Preview:
        analyst = copy_text(analyst, "analyst")
        result = preview_question(self.schema, question, options, analyst, self._ledger, self._snapshot.name)
        return result if self._note is None else replace(result, warnings=(self._note, *result.warnings))

    def session(
        self, noise_scale: object, epsilon: object, analyst: str = DEFAULT_ANALYST, key: str | None = None
    ) -> CountingSession:
        """Protocol 1: pay epsilon at once, then count with noise of this scale as long as joint sensitivity allows."""
        return self._open_shared_session(noise_scale, epsilon, analyst, key, None)

    def _open_shared_session(
        self, noise_scale: object, epsilon: object, analyst: str, key: str | None, log: SessionLog | None
    ) -> CountingSession:
        """Open a session that several processes answer in under the same key: for the service alone.

        The log decides what was admitted and drawn before: whoever chooses it has answers drawn again for one charge.
        """
        analyst, key = copy_text(analyst, "analyst"), None if key is None else copy_text(key, "key")
        self._require_current()
        names = self.schema, self._source, self._ledger, self._caps, self._snapshot.name
        session = start_counting_session(*names, noise_scale, epsilon, analyst, key, log)
        session.note, session._release_barrier = self._note, self._release_barrier
        return session

    def publish(
        self,
        method: ReleaseMethod | str,
        out: str | Path,
        *,
        report: str | Path | None = None,
        force: bool = False,
        progress: Progress = ignore_stage,
        key: str | None = None,
        **options: object,
    ) -> Release:
        """Protect the table by a method and write it to a .csv or .parquet file, its manifest beside it.

        `method` is one of `discreet.sdc` or `discreet.synthetic`, such as `Mdav(k=10)`, or its name with its options:
        `publish("mdav", "out.csv", k=10)`. private-columns, private-records and private-linked are differential privacy
        and are charged `epsilon`, as much as a question would be, in the custodian's name. The other methods promise
        less: they may be refused for what is in the rows, the release is entered in the ledger, and every total is
        flagged from then on. `report`, an .html or .json file, is for the custodian alone. A `key` that has paid for a
        private file is refused, so that a retry cannot pay again.
        """
        recipe = build_method(method, options).resolve(self.schema)
        key = None if key is None else copy_text(key, "key")
        if isinstance(recipe, SyntheticRecipe):
            make_targets = ReleaseTargets.for_folder if recipe.is_apart else ReleaseTargets.for_table
            targets = make_targets(out, report, force)
            self._require_current()
            return publish_synthetic(self._get_handle(), recipe, targets, progress, key)
        targets = ReleaseTargets.for_table(out, report, force, recipe.method.has_second_table)
        self._require_current()
        return publish_protected(self._get_handle(), recipe, targets, progress)

    def estimate_error(
        self, method: SyntheticMethod | str | None = None, **options: object
    ) -> tuple[SyntheticPlan, ...]:
        """Plan a private file: its guarantee, its mechanisms and the expected error of every column, at no cost.

        Without a method, plan the file of every method that takes these columns.
        """
        return plan_synthetic_files(self.schema, build_synthetic_recipes(self.schema, method, options))

    def sweep(
        self,
        ks: str | Sequence[int] = "k=3..300",
        methods: str | Sequence[str] = (),
        report: str | Path | None = None,
        *,
        t: object = None,
        force: bool = False,
        progress: Progress = ignore_stage,
    ) -> SweepResult:
        """Compare risk and utility of methods over k, and recommend one. Nothing is released; for the custodian alone.

        t-closeness is tried at `t`, by default 2.
        """
        self._require_current()
        return run_sweep(self._get_handle(), ks, methods, 2 if t is None else t, report, force, progress)

    def budget(self, analyst: str | None = None) -> tuple[Balance, ...]:
        """Return what is spent and left, of the data set and of one analyst, in every model."""
        return list_balances(self.schema, analyst, self._ledger)

    def history(self, analyst: str | None = None, limit: int = 100, before: int | None = None) -> list[Entry]:
        """Return the entries of the ledger, the latest first; with `before`, only those before this entry."""
        return self._ledger.history(self.schema.name, analyst, limit, before)

    def notable_entries(self) -> list[Entry]:
        """Return every release, and every answer with an epsilon above 5, the latest first: for the custodian alone."""
        return self._ledger.notable_entries(self.schema.name)

    def is_stale(self) -> bool:
        """Return whether to open the data set again: it has a newer snapshot, or its files or its schema changed."""
        if self._schema_file is not None and not self._schema_file.is_unchanged:
            return True
        source = self._source.source if isinstance(self._source, LazySource) else self._source
        try:
            require_current(self.schema, self._snapshot, source)
        except Unavailable:
            return True
        return False

    def cached_only(self) -> Custodian:
        """Return a view of this custodian that returns stored answers and cannot charge; open as long as this is."""
        custodian = copy(self)
        custodian._payable_caps = Caps(Budget(Fraction(0)), Budget(Fraction(0)), self._caps.models)
        custodian._can_measure = False
        return custodian

    def _with_release_barrier(self, wait: Callable[[], None]) -> Custodian:
        """Return a view of this custodian that calls `wait` after a draw, before anything shows that it was made.

        Nothing that others can see depends on how long reading took, if `wait` ends at a moment that does not.
        """
        custodian = copy(self)
        custodian._release_barrier = wait
        return custodian

    def verify(self) -> LedgerVerification:
        """Verify the ledger's chain of this data set; ClaimFailed names the first entry that was changed."""
        return self._ledger.verify(self.schema.name)

    def close(self) -> None:
        """Close the source and the ledger."""
        self._ledger.close()
        self._source.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_current(self) -> None:
        """Refuse before anything is charged; rows that were to be opened later are opened now, or refused."""
        source = self._source.ensure_open() if isinstance(self._source, LazySource) else self._source
        require_current(self.schema, self._snapshot, source)

    def _get_handle(self) -> DatasetHandle:
        return DatasetHandle(self.schema, self._snapshot, self._source, self._ledger, self._note)

    def _get_spent_epsilon(self) -> dict[str, Fraction | None]:
        return {balance.model: balance.epsilon for balance in self._ledger.balance(self.schema.name, self._caps)}

    @contextmanager
    def _wait_for_slot(self, planned: Plan, receipt: Receipt) -> Iterator[None]:
        """Few large answers are drawn at once, since each takes much memory; the others begin at once."""
        is_large = receipt.answer is None and count_answer_numbers(planned.query, self.schema) > LARGE_REPLY_NUMBERS
        with self._large_answer_slots if is_large else nullcontext():
            yield

    def _make_outputs(self, planned: Plan, receipt: Receipt) -> str:
        """Make what was paid for, after the charge: whatever happens here the charge stands."""
        if not self._can_measure:
            raise InvalidInput("this question has no stored answer; ask it without saying that it must have one")
        if receipt.answer_to_degrade is not None:
            epsilon, _, noisy_result = parse_result(receipt.answer_to_degrade)
            return serialize_result(planned, degrade_result(noisy_result, epsilon, planned))
        try:
            exact_inputs = scan_rows(planned, self._source)
        except Unavailable as failure:
            raise Unavailable(
                f"{failure}; what was charged stays charged, and a retry with the same key is free"
            ) from None
        return serialize_result(planned, sample_noisy_outputs(planned, exact_inputs))

    def _read_stored(self, planned: Plan, request: PlanRequest, stored: str) -> tuple[Plan, NoisyResult]:
        """What is stored of an answer, and the plan that it was drawn by: that of a reused answer had another size."""
        epsilon, rho, noisy_result = parse_result(stored)
        if (epsilon, rho) == (planned.epsilon, planned.rho):
            return planned, noisy_result
        noise_epsilon = None if rho is not None else epsilon
        stored_request = replace(request, accuracy=None, noise_scale=None, epsilon=noise_epsilon, rho=rho)
        stored_plan = replan_query(planned, replace(stored_request, max_epsilon=None))
        if stored_plan.build_question_key() != planned.build_question_key():
            raise Internal("a stored answer was drawn by another plan")
        return replace(stored_plan, target_accuracy=planned.target_accuracy), noisy_result


def _stat_schema_file(schema: str | Path) -> TrackedFiles:
    """The schema's file as it is before it is read."""
    path = locate_schema(schema)
    return TrackedFiles("the schema", path, stat_files(path))

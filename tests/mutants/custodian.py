"""Faults where rows, plans and ledger meet."""

from __future__ import annotations

from .fault import Fault

FAULTS = (
    Fault(
        "custodian-draws-large-answers-at-once",
        "Parallel questions draw their large answers at the same time.",
        "The memory of 32 questions adds up in one worker, and little of it comes back.",
        "custodian/custodian.py",
        """        with self._large_answer_slots if is_large else nullcontext():
""",
        "        with nullcontext():\n",
        ("service/test_memory.py::test_few_large_answers_are_drawn_at_once",),
    ),
    Fault(
        "charge-after-reading",
        "Rows are read and noise is drawn before anything is charged.",
        "Who stops the process between the two, or times it, has looked for nothing.",
        "custodian/custodian.py",
        "        receipt = self._ledger.charge(charge, self._payable_caps)",
        """        sample_noisy_outputs(planned, scan_rows(planned, self._source))
        receipt = self._ledger.charge(charge, self._payable_caps)""",
        ("service/test_service_early_reads.py::test_an_answer_is_charged_drawn_waited_for_and_only_then_written_down",),
    ),
    Fault(
        "refund-on-failure",
        "Where reading fails, what was charged is given back.",
        "Who makes a source fail on some rows and not on others asks for nothing, again and again.",
        "custodian/custodian.py",
        "        except Unavailable as failure:\n            raise Unavailable(\n",
        "        except Unavailable as failure:\n"
        "            from discreet.ledger.storage import accounts\n\n"
        "            with self._ledger._database.begin_write() as connection:\n"
        "                connection.execute(accounts.delete())\n"
        "            raise Unavailable(\n",
        ("unit/custodian/test_custodian.py::test_what_fails_while_rows_are_read_stays_charged",),
    ),
    Fault(
        "one-draw-for-all-cells",
        "All cells of a question get the same draw.",
        "Differences of the cells are exact.",
        "measurements/additive.py",
        "noise = self.noise.sample_units(len(inputs), entropy) if inputs else ()",
        "noise = [*self.noise.sample_units(1, entropy)] * len(inputs) if inputs else ()",
        ("unit/custodian/test_custodian.py::test_every_cell_is_drawn_apart",),
    ),
    Fault(
        "empty-cells-without-noise",
        "A total of 0 gets no noise.",
        "A cell that is told as exactly 0 again and again is empty, and one that is not is not.",
        "measurements/additive.py",
        "return [tuple(x + int(n) for x, n in zip(*row, strict=True)) for row",
        "return [tuple(x + int(n) * bool(x) for x, n in zip(*row, strict=True)) for row",
        ("laws/test_real_losses.py::test_an_honest_mechanism_keeps_its_claim",),
    ),
    Fault(
        "private-keys-without-threshold",
        "Every private key that a row has is shown.",
        "That somebody lives in a hamlet is told by the hamlet's name.",
        "measurements/threshold.py",
        "if count >= self.min_count}",
        "if count is not None}",
        ("unit/custodian/test_custodian.py::test_keys_that_are_not_public_are_shown_over_a_threshold",),
    ),
    Fault(
        "cells-that-have-rows",
        "Only cells that have a row are answered.",
        "Which groups are empty is told exactly.",
        "custodian/measure.py",
        """        cells = plan.list_cells()
""",
        """        histograms = source.totals(TotalsScan(UNIT_MEASURES, plan.keys, plan.query.where))
        cells = [cell for cell in plan.list_cells() if cell in histograms]
""",
        (
            "unit/verification/test_replay.py::test_every_form_is_answered_from_an_empty_table[GROUP BY sex-add-remove-1]",
        ),
    ),
    Fault(
        "stored-answers-drawn-again",
        "A question that has a stored answer is drawn again.",
        "Averaging: the same question for nothing, again and again.",
        "custodian/custodian.py",
        "stored = receipt.answer or self._ledger.store(",
        "stored = (receipt.answer and self._make_outputs(planned, receipt)) or self._ledger.store(",
        ("unit/custodian/test_custodian.py::test_the_same_question_is_the_same_answer_for_nothing",),
    ),
    Fault(
        "session-answers-drawn-again",
        "The same question in a session is drawn again.",
        "Averaging inside one session, for nothing.",
        "custodian/session.py",
        """        text = stored_outputs or self._log.store_outputs(place, outputs)
""",
        """        text = self._measure_query(planned) if stored_outputs else self._log.store_outputs(place, outputs)
""",
        ("unit/custodian/test_session.py::test_the_same_question_is_the_same_answer_for_nothing",),
    ),
    Fault(
        "session-not-paid",
        "A session is opened with a charge of almost nothing.",
        "As many sessions as one likes.",
        "custodian/session.py",
        "cost = PrivacyCost(session_epsilon, session_epsilon**2 / 2)",
        "cost = PrivacyCost(session_epsilon / 1000, session_epsilon**2 / 2)",
        ("unit/custodian/test_session.py::test_the_whole_session_is_paid_on_opening_and_never_again",),
    ),
    Fault(
        "one-charge-two-sessions",
        "A session does not claim its charge before it answers.",
        "A key that is used twice opens two sessions for one charge.",
        "custodian/session.py",
        "if self.ledger.store(self.dataset, self.entry, self.mark) != self.mark:",
        "if not self.ledger.store(self.dataset, self.entry, self.mark):",
        ("unit/custodian/test_session.py::test_a_retry_with_the_same_key_pays_once_and_one_session_answers",),
    ),
    Fault(
        "draws-seen-when-they-are-ready",
        "Nothing is waited for between a draw and what shows that it was made.",
        "That a question has a stored answer tells others how long the rows were read.",
        "custodian/custodian.py",
        """        finally:
            self._release_barrier()
""",
        "        finally:\n            pass\n",
        ("service/test_service_early_reads.py::test_an_answer_is_charged_drawn_waited_for_and_only_then_written_down",),
    ),
    Fault(
        "a-file-for-half-its-price",
        "A private file is charged half of what it costs.",
        "Files cost twice the epsilon that is charged.",
        "release/publish_synthetic.py",
        "question, query_text, model, plan.privacy_cost, recipe.epsilon, key=key, fresh=True)",
        "question, query_text, model, type(plan.privacy_cost)(plan.privacy_cost.epsilon / 2, "
        "plan.privacy_cost.rho / 4), recipe.epsilon, key=key, fresh=True)",
        ("unit/release/test_publish_synthetic.py::test_a_private_file_is_charged_and_says_what_it_is",),
    ),
    Fault(
        "method-of-a-caller-s-own",
        "A release is made by the object that a caller hands in, and not by a copy of it.",
        "An epsilon that is changed after it was checked is charged, or a k of 1 hides nobody.",
        "release/methods.py",
        "return replace(built)",
        "return built",
        ("service/test_release_options.py::test_what_is_changed_behind_a_method_is_read_again",),
    ),
    Fault(
        "any-log-of-a-session",
        "A session takes a log of any class.",
        "With a log that forgets, one charge buys as many draws as one likes.",
        "custodian/session.py",
        "session_log = MemoryLog() if log is None else _require_own_log(log)",
        "session_log = MemoryLog() if log is None else log",
        ("unit/custodian/test_session.py::test_a_log_of_a_caller_s_own_opens_no_session",),
    ),
    Fault(
        "refusal-of-another-search",
        "An accuracy that no epsilon reaches is refused by the search for a stored answer.",
        "The refusal names epsilon 10,000 where 0.01 is left, and an accuracy that this cannot reach.",
        "planner/planner.py",
        "            raise refusal from None\n",
        "            raise\n",
        ("unit/custodian/test_preview.py::test_an_accuracy_that_no_epsilon_reaches_is_refused_with_what_is_left",),
    ),
)

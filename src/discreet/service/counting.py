"""Sessions of counting questions over HTTP: protocol 1, answered in by any worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from discreet.custodian import Custodian
from discreet.custodian.session import Session, scale_of
from discreet.errors import BudgetExceeded, InvalidInput, Unsupported
from discreet.exact import positive
from discreet.planner.asked import asked
from discreet.service import asking
from discreet.service.access import Entered
from discreet.service.problems import Problem, not_found
from discreet.service.store.answers import Kept, canonical, keep_answer
from discreet.service.store.counting import (
    Counting,
    StoredLog,
    close_session,
    drop_session,
    keep_session,
    new_id,
    session_by_id,
)

ENDED = "this session ended when the service was started again; what is left of it is lost; open another"


def open_session(entered: Entered, key: str, said: dict[str, Any]) -> dict[str, object]:
    """Pay for a session, once under its key."""
    if entered.held.jobs:
        raise Unsupported("there are no sessions where questions run as jobs; ask the questions one by one")
    made = _new(entered, key, said)
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        kept = keep_session(entered.service.store, made)
        if (kept.noise_scale, kept.epsilon) != (made.noise_scale, made.epsilon):
            raise Problem("conflict", f"the key {key[:40]!r} was used for another request; use a new key for a new one")
        try:
            return _told(kept, resumed(entered, custodian, kept))
        except (BudgetExceeded, InvalidInput):
            if kept.id == made.id:
                drop_session(entered.service.store, made.id)
            raise


def _new(entered: Entered, key: str, said: dict[str, Any]) -> Counting:
    """A session of numbers that one can have."""
    scale = scale_of(asking.exact(said["noise_scale"], "noise_scale"))
    epsilon = positive(asking.exact(said["epsilon"], "epsilon"), "epsilon")
    asked(epsilon)
    asking.check_least(entered.service.config.limits, epsilon)
    names = entered.name, entered.rehearsal, entered.principal.name, key
    return Counting(new_id(entered.service.life), *names, str(scale), str(epsilon))


def answer(entered: Entered, wanted: str, key: str, said: dict[str, Any]) -> Kept:
    """One count in a session; the same at the same noise scale is the same answer."""
    kept = own_session(entered, wanted)
    if kept.closed:
        raise InvalidInput("the session is closed; open another")
    asking.check_limits(entered.service.config.limits, entered.schema, said)
    scale = None if said.get("noise_scale") is None else asking.exact(said["noise_scale"], "noise_scale")
    named = said | {"session": kept.id}  # under the same key, in another session, it is another request
    before = asking.stored(entered.service, entered.name, entered.rehearsal, kept.analyst, key, named)
    if before is not None:
        return before
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        session = resumed(entered, custodian, kept)
        made = session.answer(said["question"], scale)
        beside = {"session": kept.id, "left": str(session.left), "picture": False}
        document = asking.kept_of(custodian, entered.rehearsal, kept.analyst, key, said, made, beside, entered.at)
    return asking.same(keep_answer(entered.service.store, replace(document, asked=canonical(named))), named)


def one_session(entered: Entered, wanted: str) -> dict[str, object]:
    """How a session stands."""
    kept = own_session(entered, wanted)
    with entered.service.holdings.custodian(entered.name, entered.rehearsal) as custodian:
        return _told(kept, resumed(entered, custodian, kept))


def close(entered: Entered, wanted: str) -> None:
    """No more answers in a session; what is left is lost."""
    close_session(entered.service.store, own_session(entered, wanted).id)


def own_session(entered: Entered, wanted: str) -> Counting:
    """A session by its id, if it is the sender's."""
    kept = session_by_id(entered.service.store, wanted)
    here = kept is not None and (kept.dataset, kept.rehearsal) == (entered.name, entered.rehearsal)
    if kept is None or not here or kept.analyst != entered.principal.name:
        raise not_found()
    return kept


def resumed(entered: Entered, custodian: Custodian, kept: Counting) -> Session:
    """The session as it stands, in this worker: under its key it was paid for once."""
    life = entered.service.life
    if not kept.began_in(life):
        raise InvalidInput(ENDED)
    log = StoredLog(entered.service.store, kept.id, life)
    numbers = asking.exact(kept.noise_scale, "noise_scale"), asking.exact(kept.epsilon, "epsilon")
    session = custodian._settling(entered.settle)._shared_session(*numbers, kept.analyst, f"session {kept.id}", log)
    session.catch_up()
    return session


def _told(kept: Counting, session: Session) -> dict[str, object]:
    numbers = {"noise_scale": str(session.noise_scale), "epsilon": str(session.epsilon), "left": str(session.left)}
    return {"id": kept.id, "dataset": kept.dataset, "rehearsal": kept.rehearsal, "closed": kept.closed} | numbers

"""Every option of every release method means the same in Python, commands, HTTP, the console and the client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet import InvalidInput
from discreet.cli import release_commands
from discreet.client.encode_requests import encode_method
from discreet.release.methods import METHODS, ReleaseMethod, build_method
from discreet.sdc import Distinct, Mdav
from discreet.service.api.models import RELEASE_MODELS, Ask
from discreet.service.console.custodian_pages import _read_release
from discreet.service.console.forms import ConsoleForm, read_question
from discreet.synthetic import PrivateLinked
from support.command_line import run_discreet
from support.inprocess_service import InProcessService, build_config, run_service

LEVELS = {"age": [10, 30]}
VALUES: dict[str, tuple[object, list[str], list[str]]] = {
    "epsilon": (Fraction(1, 2), ["--epsilon", "0.5"], ["0.5"]),
    "delta": (Fraction(1, 1000), ["--delta", "0.001"], ["1/1000"]),
    "columns": (["age", "sex"], ["--column", "age", "--column", "sex"], ["age", "sex"]),
    "apart": (True, ["--apart"], ["yes"]),
    "pairs": ([("age", "sex")], ["--pair", "age,sex"], ["age,sex"]),
    "k": (7, ["-k", "7"], ["7"]),
    "keep": (["hospital"], ["--keep", "hospital"], ["hospital"]),
    "grouping": ("v-mdav", ["--grouping", "v-mdav"], ["v-mdav"]),
    "weights": ("stay", ["--weights", "stay"], ["stay"]),
    "strata": ("hospital", ["--strata", "hospital"], ["hospital"]),
    "hierarchies": (LEVELS, ["--hierarchies", "levels.json"], [json.dumps(LEVELS)]),
    "loss": ("precision", ["--loss", "precision"], ["precision"]),
    "suppress": (Fraction(1, 20), ["--suppress", "0.05"], ["0.05"]),
    "swap": ("quasi", ["--swap", "quasi"], ["quasi"]),
    "ks": ({"income": 20, "bmi": 9}, ["--k-of", "income=20", "--k-of", "bmi=9"], ["income=20\nbmi=9"]),
    "informed": (True, ["--informed"], ["yes"]),
    "diversity": (Distinct(3), ["--diversity", "distinct 3"], ["distinct 3"]),
    "t": (Fraction(3, 2), ["-t", "1.5"], ["1.5"]),
    "form": ("anatomy", ["--form", "anatomy"], ["anatomy"]),
    "buckets": (4, ["--buckets", "4"], ["4"]),
    "groups_per_bucket": (2, ["--groups-per-bucket", "2"], ["2"]),
    "partition": ("quasi", ["--partition", "quasi"], ["quasi"]),
}
"""Of every option a value other than its default, as Python has it, as words of a command, and as a form sends it."""
ALL = {name: {option: VALUES[option][0] for option in method.list_options()} for name, method in METHODS.items()}


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessService]:
    """A service that several tests look at, and none changes."""
    with run_service(build_config(tmp_path_factory.mktemp("unspent"))) as unspent_service:
        yield unspent_service


def test_every_option_has_a_value_here() -> None:
    assert {option for options in ALL.values() for option in options} == VALUES.keys()


@pytest.mark.parametrize("name", METHODS)
def test_python(name: str) -> None:
    """As an object, by name, and copied: what is set is what is there, and a copy equals it."""
    built = METHODS[name](**ALL[name])
    assert built.list_values().keys() == ALL[name].keys()
    assert built == build_method(name, ALL[name]) == build_method(built, {})
    with pytest.raises(TypeError):
        METHODS[name](unknown=1)
    with pytest.raises(InvalidInput, match="has no unknown"):
        build_method(name, ALL[name] | {"unknown": 1})
    with pytest.raises(InvalidInput, match="give k to the method itself"):
        build_method(built, {"k": 3})


@pytest.mark.parametrize("name", METHODS)
def test_command(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "levels.json").write_text(json.dumps(LEVELS))
    monkeypatch.chdir(tmp_path)
    read: list[ReleaseMethod] = []

    def build_and_stop(method: str, options: dict[str, object]) -> None:
        read.append(build_method(method, options))
        raise InvalidInput("enough")

    monkeypatch.setattr(release_commands, "build_method", build_and_stop)
    words = [word for option in ALL[name] for word in VALUES[option][1]]
    assert run_discreet("publish", name, "t.yaml", "--out", "o.csv", *words).err == "discreet: enough\n"
    assert read == [build_method(name, ALL[name])]


@pytest.mark.parametrize("name", METHODS)
def test_http_and_client(name: str) -> None:
    """What the client sends is a body of the API, and means the same."""
    built = build_method(name, ALL[name])
    body = json.loads(json.dumps(encode_method(built)))
    assert body.keys() == {"method"} | ALL[name].keys()
    read = RELEASE_MODELS[name].model_validate(body).model_dump(exclude_unset=True)
    assert build_method(read.pop("method"), read) == built


@pytest.mark.parametrize("name", METHODS)
def test_console(name: str, unspent: InProcessService) -> None:
    """The page of a method has a field for each of its options, and for no other; its form means the same."""
    page = unspent.get("cus", f"/console/custodian/datasets/registry/publish?method={name}").text
    assert {option for option in VALUES if f'id="{option}"' in page or f'type="checkbox" name="{option}"' in page} == {
        *ALL[name]
    }
    fields = {option: VALUES[option][2] for option in ALL[name]}
    body: dict[str, Any] = _read_release(ConsoleForm({"method": [name], "format": ["csv"]} | fields)).list_sent()
    options = {option: body[option] for option in ALL[name]}
    assert body == {"method": name, "format": "csv", "report": True} | options
    assert build_method(name, options) == build_method(name, ALL[name])


@pytest.mark.parametrize(("name", "option"), [("mdav", "k"), ("mdav-swap", "k"), ("t-close", "buckets")])
def test_a_zero_in_a_form_is_no_empty_field(name: str, option: str) -> None:
    """It is refused as it is in Python, and not taken for a field that was left empty."""
    with pytest.raises(InvalidInput) as refusal:
        build_method(name, {option: 0})
    with pytest.raises(InvalidInput, match=re.escape(str(refusal.value))):
        _read_release(ConsoleForm({"method": [name], option: ["0"]}))


def test_rows_expected_in_a_form_are_not_zero() -> None:
    fields = {"question": ["SELECT AVG(age) FROM registry"], "size": ["1"]}
    assert read_question(ConsoleForm(fields), Ask).rows is None
    with pytest.raises(InvalidInput, match="rows: input should be greater than or equal to 1"):
        read_question(ConsoleForm(fields | {"rows": ["0"]}), Ask)


def test_a_method_that_is_not_ours_is_refused() -> None:
    class Mine(Mdav):
        """A method that could see rows."""

    with pytest.raises(InvalidInput, match="a subclass of it"):
        build_method(Mine(k=3), {})


def test_what_is_changed_behind_a_method_is_read_again() -> None:
    """A method is copied and checked when it is used, whatever was done to it."""
    method = PrivateLinked(epsilon=1)
    object.__setattr__(method, "epsilon", -1)
    with pytest.raises(InvalidInput, match="above 0"):
        build_method(method, {})

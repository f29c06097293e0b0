"""The unit, the container file and the example configuration say what is so, and the page on operation tells of all."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from discreet.schema.yaml import list_keys
from discreet.service import config, monitoring
from discreet.service.config import read_config
from discreet.service.worker import GRACE_SECONDS, MARGIN

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
HOME = "/var/lib/discreet"
SECTIONS = {"Unit", "Service", "Install"}


def unit() -> dict[str, dict[str, str]]:
    """The unit's sections; a key is given once, and a line is a key with its value."""
    sections: dict[str, dict[str, str]] = {}
    for line in (PACKAGING / "discreet.service").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
            continue
        key, equals, value = line.partition("=")
        assert equals
        assert re.fullmatch("[A-Za-z]+", key)
        assert key not in section
        section[key] = value
    return sections


def instructions() -> list[tuple[str, str]]:
    """The container file's instructions, each on one line."""
    text = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_example_is_a_configuration() -> None:
    """Beyond this machine, hence under TLS; what it shows of the rest is what holds where nothing is said."""
    read = read_config(PACKAGING / "service.yaml")
    assert (read.address, read.port) == ("0.0.0.0", 8443)
    assert read.tls is not None
    assert not read.insecure
    assert read.padding


def test_what_the_example_comments_out_is_what_holds_anyway(tmp_path: Path) -> None:
    """But for the ledger (each data set's own unless one is named), jobs (they follow the engine) and the url."""
    text = (PACKAGING / "service.yaml").read_text()
    explicit_file = tmp_path / "said.yaml"
    explicit_file.write_text(re.sub(r"^( *)# ( *\w+:)", r"\1\2", text, flags=re.MULTILINE))
    left_out = tmp_path / "left_out.yaml"
    left_out.write_text(re.sub("# (ledger|jobs|url):", r"\1:", text))
    assert "# deadline" not in explicit_file.read_text()
    assert read_config(explicit_file) == read_config(left_out)


def test_the_example_shows_every_key() -> None:
    text = (PACKAGING / "service.yaml").read_text()
    kinds = (config.Config, config.Limits, config.DatasetConfig, config.TLS)
    keys = [key for kind in kinds for key in list_keys(kind).allowed]
    assert [key for key in keys if f"{key}:" not in text] == []


def test_the_unit_runs_the_command_as_a_user_of_its_own_who_may_do_little() -> None:
    parsed = unit()
    assert set(parsed) == SECTIONS
    service = parsed["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["serve", "--config", f"{HOME}/service.yaml"]
    assert service["User"] == "discreet"
    yes = ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces", "LockPersonality")
    assert {service[key] for key in yes} == {"yes"}
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["LimitCORE"] == "0"
    assert "MemoryDenyWriteExecute" not in service


def test_the_unit_gives_requests_under_way_the_time_they_have() -> None:
    """The supervisor alone is told, and is done before systemd's patience ends, for deadlines of up to 10 seconds."""
    service = unit()["Service"]
    assert service["KillMode"] == "mixed"
    assert float(service["TimeoutStopSec"]) > GRACE_SECONDS + 4 * 10 + 2 * MARGIN
    assert service["OOMPolicy"] == "continue"
    assert service["RestartPreventExitStatus"].split() == ["2", "4"]


def test_the_container_is_made_of_what_is_here_and_installs_by_hash() -> None:
    steps = instructions()
    copied = [shlex.split(words)[:-1] for name, words in steps if name == "COPY" and "--from" not in words]
    paths = [path for words in copied for path in words]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    installs = [words for name, words in steps if name == "RUN" and " install " in words and "pip" in words]
    assert ["--require-hashes" in words or "--no-deps" in words for words in installs] == [True, True]


def test_the_container_runs_as_nobody_in_particular_and_can_be_asked_how_it_is() -> None:
    steps = dict(instructions())
    assert steps["USER"] == "10001"
    assert '"discreet.service.health", "/var/lib/discreet/service.yaml"' in steps["HEALTHCHECK"]
    assert steps["ENTRYPOINT"] == '["discreet"]'
    assert steps["CMD"] == '["serve", "--config", "/var/lib/discreet/service.yaml"]'
    assert steps["EXPOSE"] == str(read_config(PACKAGING / "service.yaml").port)


def test_the_page_on_operation_tells_of_every_field_of_the_log() -> None:
    page = (ROOT / "docs" / "operation.md").read_text()
    assert [field for field in monitoring.LOG_FIELDS if f"`{field}`" not in page] == []

"""Every other command on the made-up registry, on the screen and as JSON; and the help of all of them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from package_places import find
from record_questions import COUNT, write_visits
from run_steps import Case, fork, run_command

FILE, LEDGER = "registry.yaml", "registry.discreet/ledger.db"
METHODS: dict[str, tuple[str, ...]] = {
    "mdav": ("mdav", "-k", "10"),
    "mdav-of-kinds": ("mdav", "-k", "5", "--grouping", "v-mdav", "--keep", "hospital"),
    "generalise": ("generalise", "-k", "10", "--suppress", "0.1"),
    "mdav-swap": ("mdav-swap", "-k", "10"),
    "mdav-swap-informed": ("mdav-swap", "-k", "10", "--informed", "--k-of", "income=20"),
    "mdav-swap-diverse": ("mdav-swap", "-k", "10", "--swap", "quasi", "--diversity", "distinct 3"),
    "ir-swap": ("ir-swap", "-k", "10", "--diversity", "distinct 2"),
    "t-closeness": ("t-closeness", "-k", "10", "-t", "2"),
    "t-closeness-shown": ("t-closeness", "-k", "10", "-t", "2", "--form", "anatomy"),
    "anatomy": ("anatomy", "-k", "10"),
    "private-linked": (
        "private-linked",
        "--epsilon",
        "1",
        "--column",
        "age",
        "--column",
        "sex",
        "--column",
        "bmi",
    ),
    "private-columns": ("private-columns", "--epsilon", "1", "--column", "age", "--column", "diagnosis"),
    "private-records": (
        "private-records",
        "--epsilon",
        "1",
        "--column",
        "age",
        "--column",
        "stay",
        "-k",
        "20",
    ),
}
REPORTED = {"mdav", "mdav-swap", "anatomy", "private-linked", "private-columns"}
"""The methods whose reports are copied: to draw one takes a second."""
AUDITS: dict[str, tuple[str, ...]] = {
    "laplace": ("laplace", "--epsilon", "1", "--draws", "2000"),
    "gaussian": ("gaussian", "--epsilon", "1", "--delta", "1e-3", "--draws", "2000"),
    "question": (
        FILE,
        "SELECT COUNT(*) FROM registry WHERE smoker",
        "--epsilon",
        "1",
        "--draws",
        "1000",
        "--neighbours",
        "2",
    ),
    "callable": ("leaky.py:leak", "--epsilon", "0.1", "--pair", "[0]", "[1]", "--draws", "2000"),
    "unknown": ("nothing", "--epsilon", "1"),
}
SERVICE = """\
datasets:
  - schema: registry.yaml
padding: no
"""


def make_help(_: Path) -> Iterator[Case]:
    """Yield the help of the command and of all below it, which are found by walking it."""
    case = Case("help/all-commands")
    names = case.call("every command and subcommand", _print_commands).splitlines()
    case.run("--version")
    case.run()
    yield case
    for name in names:
        case = Case(f"help/{name.replace(' ', '-')}")
        case.run(*name.split()[1:], "--help")
        yield case


def _print_commands() -> None:
    """Print the names of all commands: the parser is caught as it begins."""
    from typer.core import TyperGroup

    def walk(command: object, name: str) -> None:
        """Print a command's name, and those of all below it."""
        print(name)
        for part, below in sorted(getattr(command, "commands", {}).items()):
            walk(below, f"{name} {part}")

    TyperGroup.main = lambda self, *_, **__: walk(self, "discreet")  # type: ignore[assignment]
    sys.argv = ["discreet"]
    find("command")()


def make_custody(registered: Path) -> Iterator[Case]:
    """Yield what a custodian does: draft, check, look at budget and history."""
    case = Case("custody/init", registered)
    case.run("init", "registry.csv")
    case.run("init", "registry.csv", "--json")
    case.run("init", "registry.csv", "--output", "draft.yaml")
    case.show("draft.yaml")
    case.run("init", "registry.csv", "--output", "draft.yaml")
    case.run("check", "draft.yaml")
    yield case
    case = Case("custody/check", registered)
    shutil.rmtree(case.folder / "registry.discreet")
    case.run("check", FILE)
    case.run("check", FILE, "--json")
    case.run("check", FILE, "--refresh", "--name", "june")
    case.run("check", FILE, "--refresh", "--disjoint", "--json")
    case.run("check", FILE, "--name", "july")
    case.show("registry.discreet/ledger-head.json")
    case.show_tables(LEDGER)
    yield case
    case = Case("custody/check-visits")
    write_visits(case.folder)
    case.run("check", "visits.yaml")
    case.run("check", "visits.yaml", "--json")
    yield case
    case = Case("custody/budget-and-history", registered)
    case.change(
        FILE,
        ("models: [dp]", "models: [dp, approx-dp]"),
        ("delta: 1e-6", "delta: 0.01"),
        ("delta: 1e-7", "delta: 0.01"),
    )
    case.run("budget", FILE)
    case.run("history", FILE)
    case.run("ask", FILE, COUNT, "--epsilon", "0.25", "--analyst", "ann")
    case.run(
        "ask",
        FILE,
        "SELECT COUNT(*) FROM registry WHERE hospital = 'Elm' AND age > 50",
        "--epsilon",
        "0.25",
        "--analyst",
        "ann",
    )
    case.run(
        "ask",
        FILE,
        "SELECT HISTOGRAM(age, 16) FROM registry",
        "--epsilon",
        "0.3",
        "--delta",
        "1e-3",
        "--analyst",
        "bob",
    )
    for words in (
        ("budget", FILE),
        ("budget", FILE, "--analyst", "bob", "--tight"),
        ("history", FILE),
        ("history", FILE, "--limit", "2"),
    ):
        case.run(*words)
        case.run(*words, "--json")
    case.run("history", FILE, "--analyst", "ann")
    case.show_tables(LEDGER)
    yield case


def make_ledger(registered: Path) -> Iterator[Case]:
    """Yield what is done with a ledger."""
    case = Case("ledger/verify-backup-restore-upgrade", registered)
    case.run("ask", FILE, COUNT, "--epsilon", "0.25")
    case.run("ledger", "verify", LEDGER)
    case.run("ledger", "verify", LEDGER, "--json")
    case.run("ledger", "backup", LEDGER, "copy.db")
    case.run("ledger", "backup", LEDGER, "copy.db")
    case.run("ledger", "backup", LEDGER, "copy.db", "--force", "--json")
    case.run("ask", FILE, COUNT, "--epsilon", "0.5")
    case.run("ledger", "restore", "copy.db", "restored.db", "--forgotten", "0.5")
    case.run("ledger", "restore", "copy.db", "again.db", "--forgotten", "0", "--json")
    case.run("ledger", "restore", "copy.db", "again.db", "--forgotten", "0")
    case.run("ledger", "verify", "restored.db", "--contains", "0" * 64)
    case.run("ledger", "verify", "restored.db", "--contains", "short")
    case.run("ledger", "upgrade", LEDGER)
    case.run("ledger", "upgrade", LEDGER, "--json")
    case.run("ledger", "verify", "none.db")
    case.run("ledger", "verify", "registry.csv")
    case.show_tables("restored.db")
    yield case
    case = Case("ledger/another-place", registered)
    case.run("check", FILE)
    case.run("ask", FILE, COUNT, "--epsilon", "0.25", "--ledger", "other.db")
    case.run("budget", FILE, "--ledger", "other.db")
    yield case
    case = Case("ledger/tampered-with", registered)
    case.run("ask", FILE, COUNT, "--epsilon", "0.25")
    case.call("UPDATE ledger_accounts SET dp = replace(dp, '25', '15')", lambda: _spoil(case.folder / LEDGER))
    case.run("ledger", "verify", LEDGER)
    case.run("ledger", "verify", LEDGER, "--json")
    yield case


def _spoil(path: Path) -> None:
    """Change an account behind the ledger's back."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ledger_accounts SET dp = replace(dp, '25', '15')")
    connection.close()


def make_publish(registered: Path) -> Iterator[Case]:
    """Yield a release by each method with its manifest and report, verified and assessed."""
    small = Path(tempfile.mkdtemp(prefix="discreet-copy-", dir="/tmp"))
    find("write_registry")(small, 60)
    code, _, err = fork("registering", lambda: run_command(["check", FILE]), small)
    assert code == 0, err
    del registered
    for name, words in METHODS.items():
        case = Case(f"publish/{name}", small)
        report = ("--report", "report.html") if name in REPORTED else ()
        case.run_all(
            ("publish", *words, FILE, "--out", "out.csv", *report),
            ("verify", "out.csv"),
            ("verify", "out.csv", "--original", FILE, "--json"),
            ("assess", FILE, "out.csv"),
        )
        case.show("out.csv", "out.csv.manifest.json", *report[1:])
        case.add("== files", "".join(f"{path.name}\n" for path in sorted(case.folder.iterdir())))
        case.show_tables(LEDGER, ("ledger_entries", "ledger_answers"))
        yield case
    case = Case("publish/other-forms", small)
    shutil.rmtree(small)
    case.run("publish", "preview", FILE, "--epsilon", "1", "--column", "age", "--column", "sex")
    case.run("publish", "preview", FILE, "--epsilon", "1", "--column", "age", "--column", "sex", "--json")
    case.run("publish", "sweep", FILE, "--ks", "k=3..12")
    case.run("publish", "sweep", FILE, "--ks", "k=3..6", "--method", "mdav", "--json", "--report", "sweep.json")
    case.show("sweep.json")
    case.run("publish", "mdav", FILE, "-k", "10", "--out", "out.csv", "--json", "--report", "report.json")
    case.show("report.json")
    case.run("publish", "mdav", FILE, "-k", "10", "--out", "out.csv")
    case.run("assess", FILE, "out.csv", "--aligned", "--json")
    case.run("assess", FILE, "out.csv", "--report", "assessed.html")
    case.show("assessed.html")
    case.run(
        "publish",
        "private-columns",
        FILE,
        "--epsilon",
        "0.5",
        "--column",
        "age",
        "--apart",
        "--out",
        "apart",
        "--json",
    )
    case.run("budget", FILE)
    case.run("history", FILE)
    case.change("out.csv", ("F,", "M,"))
    case.run("verify", "out.csv")
    case.run("verify", "out.csv", "--json")
    (case.folder / "out.csv.manifest.json").unlink(missing_ok=True)
    case.run("verify", "out.csv")
    case.run("verify", "out.csv", "--quasi", "age", "--quasi", "sex", "-k", "2")
    yield case


def make_audit(registered: Path) -> Iterator[Case]:
    """Yield small audits."""
    for name, words in AUDITS.items():
        case = Case(f"audit/{name}", registered)
        case.write("leaky.py", "def leak(data, many):\n    return [sum(data)] * many\n")
        case.run("audit", *words)
        case.run("audit", *words, "--json")
        yield case


def make_serving(registered: Path) -> Iterator[Case]:
    """Yield what is said of tokens, and of services that do not start."""
    case = Case("serving/token", registered)
    case.write("service.yaml", SERVICE)
    config = ("--config", "service.yaml")
    case.run("token", "create", *config, "--analyst", "ann", "--dataset", "registry")
    token_document = case.run(
        "token", "create", *config, "--analyst", "cus", "--role", "custodian", "--days", "3", "--json"
    )
    case.run("token", "list", *config)
    case.run("token", "list", *config, "--json")
    case.run("token", "grant", "bob", "registry", *config)
    case.run("token", "ungrant", "bob", "registry", *config)
    case.run("token", "ungrant", "bob", "registry", *config)
    case.run("token", "grant", "bob", "nothing", *config)
    case.run("token", "create", *config, "--analyst", "bob", "--role", "king")
    case.run("token", "create", *config, "--analyst", "bob", "--days", "1000")
    case.run("token", "revoke", "nothing-begins-so", *config)
    case.run("token", "revoke", token_document.split('"id": "')[1].split('"')[0], *config)
    case.run("token", "list", *config)
    case.show_tables("service.db")
    yield case
    case = Case("serving/refusals", registered)
    for number, text in enumerate(
        (
            "datasets: []\n",
            "datasets: [{schema: none.yaml}]\n",
            SERVICE + "port: 99999\n",
            SERVICE + "workers: 0\n",
            SERVICE + "address: 0.0.0.0\n",
            SERVICE + "colour: blue\n",
            SERVICE + "deadline: 0\n",
            SERVICE + "limits: {body: 0}\n",
            SERVICE + "tls: {certificate: none.pem, key: none.key}\n",
            SERVICE + "url: nowhere\n",
        )
    ):
        case.write(f"service{number}.yaml", text)
        case.add(f"== service{number}.yaml", text)
        case.run("serve", "--config", f"service{number}.yaml", "--port", "0" if "port" not in text else "99999")
    case.run("serve", "--config", "none.yaml")
    case.run("serve", "--config", "none.yaml", "--json")
    case.run("serve", "--config", "service0.yaml", "--folder", "here")
    case.run("serve", "--port", "many")
    yield case

"""The library as a script calls it: each line is run, and what it returns is copied in all the forms it has."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from fold_json import fold
from run_steps import Case

COUNT = "SELECT COUNT(*) FROM registry WHERE age >= 40"
NAMESPACES = ("discreet", "discreet.constraints", "discreet.mechanisms", "discreet.sdc")
BEGINNING = "import discreet, json\nfrom fractions import Fraction\n" + "".join(
    f"from {namespace} import *\n" for namespace in NAMESPACES
)
TABLE = (
    "T = {'age': [23, 25, 31, 38, 44, 52, 61, 70], 'pay': [9, 12, 20, 18, 30, 41, 25, 22], 'ill': list('abacbcab')}\n"
)
SCRIPTS: dict[str, str] = {
    "answers": f"""
c = Custodian.open("registry.yaml")
q = {COUNT!r}
p = c.preview(q, epsilon=0.5, prior="normal(390, 8)")
a = c.answer(q, epsilon=0.25, prior="normal(390, 8)", analyst="ann")
a.value, a.headline, a.entry, a.stored, a.mechanism, a.accuracy, a.meaning, a.warning
a.interval(0.95), a.interval(0.5)
a.posterior
a.posterior.mean(), a.posterior.median(), a.posterior.interval(0.95), a.posterior.variance(), a.posterior.quantile(0.1)
a.guarantee
a.guarantee.words()
a.cost
a.reconciled
a.population(0.95)
json.dumps(a.picture_spec())[:3000]
a.plot("out.txt")
g = c.answer("SELECT hospital, COUNT(*) FROM registry GROUP BY hospital", epsilon=0.25, analyst="ann")
g.rows
g.reconciled
h = c.answer("SELECT HISTOGRAM(age, 8) FROM registry", epsilon=0.25, analyst="ann")
h.range(20, 40)
h.range(40, 20)
m = c.answer("SELECT MAX(age) FROM registry", epsilon=0.25, prior='{{"60": 1, "89": 1}}', analyst="bob")
m.posterior.probabilities
o = c.answer(q, epsilon=0.1, prior=Prior.uniform(380, 400, 1), analyst="bob")
w = Prior.weights({{60: 1, 89: 1}})
e = c.answer("SELECT MAX(age) FROM registry", epsilon=0.1, prior=w, distance=Distance.nominal(), analyst="bob")
c.answer(q, epsilon=2)
c.answer(q)
c.answer("SELECT nothing", epsilon=1)
c.answer(q, epsilon=0.1, constraints=["total = 9999"])
c.budget("ann")
c.history("ann")
c.history(limit=1)
c.verify()
c.is_stale()
c.notable_entries()
c.close()
c.answer(q, epsilon=0.1)
""",
    "sessions-and-rehearsal": """
c = Custodian.open("registry.yaml")
s = c.session(noise_scale=20, epsilon=0.1, analyst="bob")
s
s.answer("SELECT COUNT(*) FROM registry WHERE age BETWEEN 20 AND 29")
s.left
s.answer("SELECT COUNT(*) FROM registry WHERE age BETWEEN 30 AND 39", noise_scale=50)
s.answer("SELECT AVG(age) FROM registry")
s.left
s.close()
s.answer("SELECT COUNT(*) FROM registry WHERE age < 30")
c.estimate_error("private-columns", epsilon=1, columns=["age", "sex"])
r = c.publish("mdav", "out.csv", k=10)
r.manifest
r.risk, r.utility, r.warnings, r.rows
w = c.sweep("k=5..8", "mdav")
c.publish("mdav", "out.csv", k=10)
c.close()
d = Custodian.rehearse("registry.yaml")
d.preview("SELECT AVG(age) FROM registry", epsilon=0.5)
d.answer("SELECT AVG(age) FROM registry", epsilon=0.5)
d.answer("SELECT hospital, COUNT(*) FROM registry GROUP BY hospital", epsilon=0.5)
d.budget()
d.close()
n = Custodian.check("registry.yaml").name
Custodian.open("none.yaml")
load_schema("registry.yaml").budget, load_schema("registry.yaml").unit_name, load_schema("registry.yaml").impossible
load_schema("registry.yaml").column("age")
load_schema("registry.yaml").column("salary")
""",
    "values": """
sorted(discreet.__all__)
discreet.__version__
Accuracy.parse("±50 at 95%")
Accuracy.parse("near")
Guarantee.dp(Fraction(1, 10), "add-remove")
Guarantee.dp(Fraction(1, 10), "add-remove").words()
Guarantee.approx_dp(1, Fraction(1, 10**6), "replace-one").words()
Guarantee.k_anonymity(5)
Guarantee.t_closeness(2, "ratio")
Guarantee.dp(1, "add-remove").for_group(3).words()
Prior.normal(50, 10, 17, 90, 1)
Prior.parse("normal(50, 10) on [17, 90]", 17, 90, 1)
Prior.uniform(0, 10, 1)
Prior.weights({"a": 1, "b": 3})
Prior.weights({"a": 1, "b": 3}).probabilities
Prior.weights({"a": -1})
Distance.nominal()
Distance.ordinal(["a", "b", "c"])
Distance.continuous()
Taxonomy.of({"nurse": "health", "health": []})
Taxonomy.flat(["a", "b"])
Distinct(3), Spread(Fraction(5)), Closeness(Fraction(1, 5))
total(10), at_least(0), at_most(5), increasing(), decreasing(), fixed(3, of=0), same_total(), nested(0, [1, 2])
reconcile([3.2, -1.0, 8.5], [total(10), at_least(0)])
reconcile([3.2, -1.0, 8.5], [total(10), at_least(0)], whole=True).values
refine_linear([3.0, 4.0, 8.0], [[1], [1], [-1]], [0])
refine_linear([3.0, 4.0, 8.0], [[1], [1], [-1]], [0]).intervals(0.95)
[e.exit_code for e in (InvalidInput, BudgetExceeded, Unsupported, Unavailable, ClaimFailed, Internal)]
global_sensitivity("count"), global_sensitivity("sum", 0, 10), global_sensitivity("mean", 0, 10, "replace-one", rows=50)
global_sensitivity("nonsense")
local_sensitivity([1, 4, 9, 16], "median", 0, 20)
smooth_sensitivity([1, 4, 9, 16], "median", 0, 20, 0.1)
reidentification([[0.5, 0.5], [0.1, 0.9]])
""",
    "mechanisms": """
DiscreteLaplace(1, 1), DiscreteLaplace(1, 1).variance, DiscreteLaplace(1, 1).interval(0.95)
DiscreteLaplace(1, 1).cost()
DiscreteLaplace(1, 1).guarantee(1, "add-remove")
[DiscreteLaplace(1, 1).sample() for _ in range(12)]
DiscreteLaplace(0, 1)
AddNoise(DiscreteLaplace(1, 1), 1)
AddNoise(DiscreteLaplace(1, 1), 1).answer(100)
DiscreteGaussian.calibrated(1, Fraction(1, 10**6), 1)
[DiscreteGaussian.calibrated(1, Fraction(1, 10**6), 1).sample() for _ in range(6)]
Laplace(1), Laplace(1).variance, Laplace(1).interval(0.95)
Gaussian.calibrated(1, 1e-6, 1)
Staircase(1, 1, Fraction(1, 2))
Staircase(1, 1, Fraction(1, 2)).variance
[Staircase(1, 4, 2).sample() for _ in range(6)]
BoxStaircase(1, [1, 1])
[BoxStaircase(1, [4, 4]).sample() for _ in range(4)]
PolygonStaircase(1, [(1, 0), (0, 1), (-1, 0), (0, -1)])
exponential({"a": 3, "b": 1}, 1, 1)
Exponential.of(1, 1).answer({"a": 3, "b": 1})
[PermuteAndFlip.of(1, 1).answer({"a": 3, "b": 1}) for _ in range(5)]
refine(Prior.uniform(0, 10, 1), 4, 1)
Quantile.of(0.5, 0, 20, 1)
Quantiles.of((0.25, 0.75), 0, 20, 1).answer([1, 4, 9, 16])
IndividualOrderStatistic("median", 0, 20, 1)
IndividualOrderStatistic("median", 0, 20, 1).answer([1, 4, 9, 16])
SmoothOrderStatistic("median", 0, 20, 1)
SmoothOrderStatistic("median", 0, 20, 1).answer([1, 4, 9, 16])
TruncatedRangeCount(1)
f = audit_mechanism(lambda D, n: [D + DiscreteLaplace(1, 1).sample() for _ in range(n)], 0, 1, 1, draws=1000)
f.sentence(), f.violated
scale_for_rho(1, [[1], [1]], [[1], [1]], [[0]], [[1, 0]])
""",
    "microdata": """
microaggregate([1, 2, 3, 10, 11, 12, 30, 31], 2)
mdav_id(T, 2, ["age", "pay"])
mdav_swap(T, 2, ["age"], "ill")
ir_swap(T, 2, "pay")
anatomy(T, 2, ["age"], "ill")
generalize(T, 2, ["age"], {"age": [10, 30]})
t_close(T, 3, 2, ["age"], "pay")
measure_anonymity(T, ["age"], ["ill"])
compare_release(T, T, ["age"], ["ill"])
check_claim(Guarantee.k_anonymity(2), T, ["age"])
microaggregate([1, 2, 3], 9)
""",
}
FORMS = ("to_json", "_repr_html_")


def make(registered: Path) -> Iterator[Case]:
    """Yield a case for each script, and the public names with what they take."""
    for name, script in SCRIPTS.items():
        case = Case(f"library/{name}", registered)
        case.call(f"{BEGINNING}{TABLE}", lambda script=script: _run(script))
        if name in {"answers", "sessions-and-rehearsal"}:
            case.show_tables("registry.discreet/ledger.db", ("ledger_entries", "ledger_answers"))
        yield case
    case = Case("library/signatures")
    case.call("what all public names take", _print_signatures)
    yield case


def _run(script: str) -> None:
    """Run each line of a script and print what it returns, or how it was refused."""
    names: dict[str, object] = {}
    exec(BEGINNING + TABLE, names)
    for line in script.strip().splitlines():
        print(f">>> {line}")
        variable, _, rest = line.partition(" = ")
        try:
            result = eval(rest if rest and variable.isidentifier() else line, names)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            continue
        if variable.isidentifier() and rest:
            names[variable] = result
        _show(result)


def _show(shown: object) -> None:
    """Print a value in all its forms; a repr that names a place in memory is of no use to anybody."""
    text = repr(shown)
    print(f"<{type(shown).__name__}>" if " object at 0x" in text or " at 0x" in text else text)
    if str(shown) != text:
        print(f"str: {shown}")
    for form in FORMS:
        if callable(make := getattr(shown, form, None)):
            value = make()
            print(f"{form}: {value if isinstance(value, str) else fold(json.loads(json.dumps(value, default=str)))}")


def _print_signatures() -> None:
    """Print the parameters of all public functions, and of the public methods of all public classes."""
    places = [import_module(namespace) for namespace in NAMESPACES]
    public = {name: getattr(place, name) for place in places for name in place.__all__}
    for name, member in sorted(public.items()):
        print(f"{name}{_parameters(member)}")
        if inspect.isclass(member):
            for part in sorted(one for one in dir(member) if not one.startswith("_")):
                print(f"    {part}{_parameters(getattr(member, part))}")


def _parameters(member: object) -> str:
    """Return the names, kinds and plain defaults of what something takes; types are left out."""
    try:
        taken = inspect.signature(member).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(str(_plain(one)) for one in taken)})"


def _plain(one: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter without its type, and with a default only where that is a plain value."""
    plain = one.default is inspect.Parameter.empty or isinstance(one.default, str | int | float | tuple | None)
    return one.replace(annotation=inspect.Parameter.empty, default=one.default if plain else "...")

"""Models of the bodies of requests, which are checked against them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    create_model,
)

from discreet.errors import InvalidInput
from discreet.release.method_options import Option
from discreet.release.methods import (
    METHODS,
    SYNTHETIC_METHODS,
    ReleaseMethod,
    build_method,
    describe_method,
    list_synthetic_options,
)


def _require_storable(text: str) -> str:
    """Refuse what some stores cannot keep."""
    if "\0" in text:
        raise ValueError("it must not hold NUL characters")
    return text


Number = StrictInt | StrictFloat | Annotated[StrictStr, Field(min_length=1, max_length=400)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=1000)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=100)]
LongText = Annotated[StrictStr, Field(min_length=1, max_length=60_000)]
QuestionText = Annotated[StrictStr, Field(min_length=1, max_length=60_000, description="SQL text.")]
EXAMPLE_QUESTION = "SELECT COUNT(*) FROM registry WHERE smoker"


def _with_example(**fields: JsonValue) -> ConfigDict:
    """The example of a body; the rest of the configuration is inherited."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


@dataclass(frozen=True, slots=True)
class FormField:
    """How the console's form shows an option of a question; those without one are not in it."""

    kind: Literal["noise", "prior", "text", "integer", "choice", "box", "lines"]
    label: str = ""
    hint: str = ""
    ticked: bool | str = True  # the value of a box that is ticked
    is_kept: bool = True  # whether a form that begins with an earlier question has its value


class RequestModel(BaseModel):
    """A body: nothing in it that is not declared."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)

    def list_sent(self) -> dict[str, object]:
        """List the fields that were sent, by name: what is stored of a request."""
        return self.model_dump(exclude_unset=True)


Body = TypeVar("Body", bound=RequestModel)


def parse_fields(model: type[Body], fields: Mapping[str, object]) -> Body:
    """Parse fields as a body of the API."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = " ".join(str(part)[:40] for part in first["loc"][:1]) or "the form"
        raise InvalidInput(f"{location}: {first['msg'][:1].lower()}{first['msg'][1:200]}") from None


class QuestionModel(RequestModel):
    """A question, how much noise there may be, and what the analyst knows already."""

    question: QuestionText = Field(examples=[EXAMPLE_QUESTION])
    epsilon: Annotated[Number | None, FormField("noise", "epsilon: what it may cost")] = Field(
        None, description="What a new answer costs.", examples=["0.1"]
    )
    delta: Annotated[
        Number | None, FormField("text", "Delta", "Allows Gaussian noise where the budget has a delta.")
    ] = Field(None, description="The delta of approx-dp.", examples=[None])
    noise_scale: Annotated[Number | None, FormField("noise", "scale of the noise")] = Field(
        None, description="The scale of Laplace noise, instead.", examples=[None]
    )
    accuracy: Annotated[Text | None, FormField("noise", "accuracy: how near it should be")] = Field(
        None, description="How near it should be, instead.", examples=[None]
    )
    prior: Annotated[LongText | None, FormField("prior")] = Field(
        None,
        description="What you know already, as on the command line; @name is a saved one.",
        examples=["normal(12000, 900)"],
    )
    distance: Annotated[Text | None, FormField("text", "Distance", "Refine the prior by it.")] = Field(
        None, description="Refine the prior by this distance.", examples=[None]
    )
    model: Annotated[Text | None, FormField("text", "Model", "Empty, or one of: {models}.")] = Field(
        None, description="dp, approx-dp or individual-dp.", examples=[None]
    )
    mechanism: Annotated[Text | None, FormField("text", "Mechanism", "By its name; empty: the most accurate.")] = Field(
        None, description="The mechanism, by its name in a preview.", examples=[None]
    )
    interval: Annotated[StrictBool, FormField("box", "Two values around a quantile, for half of epsilon")] = Field(
        False, description="Half of epsilon for two values around a quantile."
    )
    rows: Annotated[
        Annotated[StrictInt, Field(ge=1, le=10**12)] | None,
        FormField("integer", "Rows expected", "The fewest you expect; the accuracy of means is stated for it."),
    ] = Field(None, description="The fewest rows you expect to be selected, for means and variances.", examples=[None])
    tail: Annotated[
        StrictBool | None,
        FormField(
            "choice",
            "Heavy tail in the prior",
            "A tenth of the prior's weight. Automatic: unless the answer is drawn from a prior with ends.",
        ),
    ] = Field(
        None,
        description="Whether to give a tenth of the prior's weight to a heavy (Cauchy) tail. Default: a tail, unless "
        "the answer is drawn from a prior with ends.",
        examples=[None],
    )
    reuse: Annotated[
        Literal["any"] | None,
        FormField("box", "Take another analyst's stored answer even if it costs more than you offer", "", "any", False),
    ] = Field(
        None,
        description="Take another analyst's stored answer also if it costs more than you offer. Default: add noise to "
        "it, or draw anew.",
        examples=[None],
    )


class Ask(QuestionModel):
    """A question to be answered."""

    model_config = _with_example(question=EXAMPLE_QUESTION, epsilon="0.1", prior="normal(12000, 900)")
    constraints: Annotated[
        list[Text],
        Field(max_length=100),
        FormField(
            "lines",
            "What must be true of the counts",
            "One to a line, such as total = 1000. Nothing taken from these data.",
        ),
    ] = Field(default_factory=list, description="What you know to be true of a count's rows.", examples=[[]])
    fresh: Annotated[StrictBool, FormField("box", "Pay for a new draw even if an answer is stored", is_kept=False)] = (
        Field(False, description="Pay for a new draw even if an answer is stored.")
    )
    stored_only: StrictBool = Field(
        False, description="Only from what is stored: nothing is charged, and refused where there is none."
    )
    ranges: Annotated[
        list[Text],
        Field(max_length=100),
        FormField("lines", "Ranges of a histogram", "One to a line, such as 20000..30000; free."),
    ] = Field(
        default_factory=list, description="Ranges of a HISTOGRAM to count too, such as 20..30; free.", examples=[[]]
    )
    population: Annotated[StrictBool, FormField("box", "Tell it for the population of a random sample too")] = Field(
        False, description="Tell it for the population of a random sample too."
    )
    population_size: Annotated[
        Number | None, FormField("text", "Size of the population", "If the rows are a random sample of it.")
    ] = Field(None, description="How large that population is.", examples=[None])


class PreviewAsk(QuestionModel):
    """A question to be planned, for nothing."""

    model_config = _with_example(question=EXAMPLE_QUESTION, epsilon="0.1")


class PriorAsk(RequestModel):
    """A prior to be seen as the planner reads it for a question."""

    model_config = _with_example(question=EXAMPLE_QUESTION, prior="normal(12000, 900)")
    question: QuestionText
    prior: LongText = Field(description="What you know already; @name is a saved one.")


class SavePrior(RequestModel):
    """A prior to be kept under a name."""

    model_config = _with_example(text="normal(12000, 900)", note="last year's survey")
    text: Annotated[LongText, AfterValidator(_require_storable)] = Field(
        description="The prior, as on the command line."
    )
    note: Annotated[StrictStr, Field(max_length=1000), AfterValidator(_require_storable)] = Field(
        "", description="Where it comes from, for yourself."
    )


class NewToken(RequestModel):
    """A token to be made."""

    model_config = _with_example(analyst="ann", role="analyst", days=30, datasets=["registry"])
    analyst: Name = Field(description="Whose token it is; her account has the same name.")
    role: Literal["analyst", "custodian"] = Field("analyst", description="A custodian sees every data set and report.")
    days: Annotated[StrictInt | StrictFloat, Field(gt=0, le=366)] = Field(
        30, description="For how many days it is good, at most 366."
    )
    datasets: Annotated[list[Name], Field(max_length=1000)] = Field(
        default_factory=list, description="The data sets that she may ask from now on."
    )


VALUE_TYPES: Mapping[str, object] = {
    "integer": StrictInt,
    "auto": StrictInt | Literal["auto"],
    "number": Number,
    "boolean": StrictBool,
    "columns": list[Text],
    "pairs": list[tuple[Text, Text]],
    "sizes": dict[Name, StrictInt],
    "levels": dict[str, Any],
}
"""The type of an option of a release by its kind; all others are text."""


class ReleaseRequest(RequestModel):
    """A release, whatever its method."""

    format: Literal["csv", "parquet"] = Field("csv", description="What the file is.")
    report: StrictBool = Field(True, description="Whether a report for the custodian is made too.")
    if TYPE_CHECKING:
        method: str  # each method has a body of its own, with this one name

    def list_options(self) -> dict[str, object]:
        """List the options of the method that were sent, by name."""
        return self.model_dump(exclude_unset=True, exclude={"method", "format", "report"})

    def build(self) -> ReleaseMethod:
        """Build the method with its options."""
        return build_method(self.method, self.list_options())


def _build_model(
    name: str, base: type[Body], help_text: str | None, options: Mapping[str, tuple[Option, object]]
) -> type[Body]:
    """Build the model of a body whose fields are the options of a release method."""
    fields: dict[str, Any] = {}
    for option, default in options.values():
        value_type: Any = Literal[option.choices] if option.choices else VALUE_TYPES.get(option.kind, Text)
        if default is None and not option.missing:
            value_type |= None
        fields[option.name] = value_type, Field(... if option.missing else default, description=option.help)
    if base is ReleaseRequest:
        fields["method"] = Literal[name], Field(description="The release method.")
    title = "".join(word.title() for word in ("publish", *name.split("-")))
    return create_model(title, __base__=base, __doc__=help_text, **fields)


RELEASE_MODELS: Mapping[str, type[ReleaseRequest]] = {
    name: _build_model(name, ReleaseRequest, describe_method(method), method.list_options())
    for name, method in METHODS.items()
}
"""The body of a release by its method."""
if TYPE_CHECKING:

    class Publish(RequestModel):
        """A release to be made."""

        root: ReleaseRequest

    class Expect(RequestModel):
        """A private file to be planned."""

        method: str | None
else:

    class Publish(RootModel[Annotated[reduce(or_, RELEASE_MODELS.values()), Field(discriminator="method")]]):
        """A release to be made: a method with its options."""

        model_config = _with_example(method="private-linked", epsilon="1", format="csv")

    class Expect(_build_model("preview", RequestModel, None, list_synthetic_options())):
        """A private file to be planned, for nothing; without a method, every one that can be made."""

        model_config = _with_example(epsilon="1", columns=["age", "sex"])
        method: Literal[tuple(SYNTHETIC_METHODS)] | None = Field(None, description="Only this method.")


class Sweep(RequestModel):
    """Methods to be compared over k; nothing is released."""

    model_config = _with_example(ks="k=3..30", methods=["mdav"])
    ks: Text = Field("k=3..300", description="Which k to compare.")
    methods: Annotated[list[Text], Field(max_length=20)] = Field(
        default_factory=list, description="Which methods to compare; without them, those that a sweep knows."
    )
    t: Number | None = Field(None, description="The t of t-closeness; 2 if it is left out.")


class OpenSession(RequestModel):
    """A session of counting questions: epsilon is paid at once, for all its answers together."""

    model_config = _with_example(noise_scale="20", epsilon="0.5")
    noise_scale: Number = Field(description="The scale of the Laplace noise of every count.")
    epsilon: Number = Field(description="What is paid at once, for all answers together.")


class SessionAsk(RequestModel):
    """A counting question in a session."""

    model_config = _with_example(question=EXAMPLE_QUESTION)
    question: QuestionText
    noise_scale: Number | None = Field(None, description="Another scale than the session's, for this count.")

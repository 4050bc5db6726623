"""What an executor infers about an uploaded model, and the resulting warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import from_plain
from app.domain.missing_params import why_missing
from app.domain.module import ModuleRecord
from app.domain.upload_warnings import UploadWarning
from app.errors.tree import FieldError, Invalid
from app.link import calls
from app.link.client import ExecutorClient

__all__ = ["Findings", "GivenNames", "inspect"]

_MOST_NAMES = 6


class GivenNames(TypedDict):
    """Names of inputs as given by a client; None if they are to be inferred."""

    data_names: tuple[str, ...] | None
    label_names: tuple[str, ...] | None
    state_names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What an executor has inferred from a symbol and its parameters.

    Attributes:
        symbol: the completed symbol, if it had to be completed.
        data, labels, states: names of the inputs.
        outputs: names of the outputs.
        output_shapes: by name; empty if they are unknown.
        missing, extra, not_finite: names of parameters.
        shapes: of inputs, as far as they could be inferred.
        layouts: of inputs whose batch axis is not the first.
        dtypes: of inputs for which the graph determines one.
        usual: labels whose shapes do not follow from the data, and are assumed to be as usual.
        free: inputs for which other sizes fit the parameters as well.
        ranges: of images for which only near sizes do, the smallest and the largest side.
        open: inputs whose shapes the client must give.
    """

    symbol: str | None
    data: tuple[str, ...]
    labels: tuple[str, ...]
    states: tuple[str, ...]
    outputs: tuple[str, ...]
    output_shapes: Mapping[str, tuple[int, ...]]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    not_finite: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, str]
    dtypes: Mapping[str, str]
    usual: tuple[str, ...]
    free: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    open: tuple[str, ...]

    @property
    def warnings(self) -> list[str]:
        """Texts of warnings that do not prevent the upload."""
        return [one.text for one in self.warnings_until(None)]

    def warnings_until(self, tag: CheckpointTag | None) -> tuple[UploadWarning, ...]:
        """Return the warnings, each with what it is about, so that it can be removed later.

        Args:
            tag: of the checkpoint that the parameters become.
        """
        found = []
        if self.extra:
            names = _listed(self.extra)
            found.append(f"parameters that the symbol does not have are skipped: {names}")
        if self.not_finite:
            found.append(f"NaN or infinite values in {_listed(self.not_finite)}")
        checkpoint = None if tag is None else str(tag)
        fitting = {name: "other sizes" for name in self.free}
        fitting |= {
            name: f"sizes from {low} to {high}" for name, (low, high) in self.ranges.items()
        }
        guessed = [
            UploadWarning(
                text=f"{name}: the shape {list(self.shapes[name])} is a guess, because {sizes} fit "
                "the parameters as well; bind it with the size of your images",
                of="shape",
                input=name,
                shape=self.shapes[name],
            )
            for name, sizes in fitting.items()
        ]
        labels = [
            UploadWarning(
                text=f"{name}: its shape does not follow from those of the data; to train, say it "
                "in label_shapes",
                of="label",
                input=name,
            )
            for name in self.usual
        ]
        params = [UploadWarning(text=text, of="params", checkpoint=checkpoint) for text in found]
        return (*params, *guessed, *labels)

    def check_missing(self) -> None:
        """Raise Invalid if the file lacks parameters: a row for each of a few, or one for all."""
        if not self.missing:
            return
        hint = why_missing(self.missing, self.extra)
        expected = "all parameters of the symbol"
        if len(self.missing) > _MOST_NAMES:
            got = f"no tensor of {len(self.missing)}: {_listed(self.missing)}"
            raise Invalid.from_errors([FieldError("params", got, expected, hint)])
        raise Invalid.from_errors(
            FieldError(name, "no tensor", expected, hint) for name in self.missing
        )

    def named(
        self,
        record: ModuleRecord,
        given: GivenNames | None = None,
        tag: CheckpointTag | None = None,
    ) -> ModuleRecord:
        """Return a record with the names of inputs, given or inferred, the completed symbol and the
        warnings; for ``tag`` see ``warnings_until``."""
        symbols = record.symbols
        if self.symbol is not None and len(set(symbols.values())) == 1:
            symbols = dict.fromkeys(record.symbols, self.symbol)
        names = {
            "data_names": self.data,
            "label_names": self.labels,
            "state_names": self.states,
        }
        specified = {name: value for name, value in (given or {}).items() if value is not None}
        warnings = self.warnings_until(tag)
        return record.evolve(symbols=symbols, warnings=warnings, **names | specified)


async def inspect(client: ExecutorClient, call: calls.InspectModel) -> Findings:
    """Ask an executor to infer what a model is.

    Raises:
        HostError: the symbol or the parameter file cannot be read.
    """
    reply = await client.call(*calls.to_call(call))
    reply.release()
    found: Findings = from_plain(Findings, reply.result)
    return found


def _listed(names: tuple[str, ...]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")

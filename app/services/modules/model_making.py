"""Creates modules from models: the files of a folder or an archive, with their declaration."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Mapping, Sequence

from app.domain.checkpoint import CheckpointTag
from app.domain.declaration import DeclaredInput
from app.domain.module import (
    SINGLE,
    BindSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    described_input,
)
from app.errors.tree import FieldError, Invalid
from app.files.model_folders import ModelFiles
from app.link import calls
from app.services.modules.incoming_checkpoint import IncomingCheckpoint
from app.services.modules.module_access import ModuleAccess
from app.services.modules.module_commands import ModuleCommands
from app.services.modules.upload_findings import Findings, inspect
from app.services.operations.executors import Executors
from app.services.predictions.state_links import check_state_links

__all__ = ["ModelMaker"]

_log = logging.getLogger(__name__)


class ModelMaker:
    """Infers a model's inputs, and creates a module from it that serves predictions."""

    def __init__(
        self, executors: Executors, access: ModuleAccess, commands: ModuleCommands
    ) -> None:
        self._executors = executors
        self._access = access
        self._commands = commands

    async def inspect(self, files: ModelFiles, executor: str) -> ModuleRecord:
        """Return the module to create, without a name; its data shapes are in ``bind``.

        Raises:
            Invalid: the declaration does not fit symbol and parameters.
        """
        declaration = files.declaration
        given = _given(declaration.inputs, declaration.buckets)
        call = calls.InspectModel(
            symbol=files.symbol,
            params=str(files.params[files.epoch]),
            shapes=given,
            label_names=declaration.label_names,
            state_names=tuple(one.state for one in declaration.states) or None,
            max_nodes=self._commands.max_nodes,
        )
        found = await inspect(self._executors.get(executor), call)
        found.check_missing()
        _check_inputs(declaration.inputs, found.data, found.open)
        for output in declaration.outputs:
            if output not in found.outputs:
                expected = f"one of the outputs {', '.join(found.outputs)}"
                raise Invalid(f"outputs.{output}", output, expected)
        keys = [str(length) for length in sorted(set(declaration.buckets))] or [SINGLE]
        guessed = {n: found.shapes[n] for n in found.data if n not in declaration.inputs}
        if guessed:
            _log.info("shapes that fit %s: %s", files.symbol_path, guessed)
        record = ModuleRecord(
            name="",
            kind=ModuleKind.BUCKETING if declaration.buckets else ModuleKind.MODULE,
            symbols=dict.fromkeys(keys, files.symbol),
            default_bucket_key=keys[-1],
            executor=executor,
            contexts=(executor,),
            serving=declaration.serving,
            labels=files.labels,
            transforms=files.transforms,
            bind=BindSpec(
                data_shapes=_described_all(found, declaration.inputs),
                label_shapes=tuple(_described(name, None, found) for name in found.usual),
                for_training=False,
            ),
        )
        record = found.named(record, tag=CheckpointTag(files.epoch))
        check_state_links(record, declaration.states, found.outputs)
        return record if files.archive is None else _archived(record, files, guessed, found)

    async def make(
        self,
        record: ModuleRecord,
        epoch: int,
        incoming: IncomingCheckpoint,
        idempotency_key: str | None = None,
    ) -> ModuleRecord:
        """Create, load and bind a module; delete it if one of these fails.

        Args:
            record: as ``inspect`` returned it, with a name.
            epoch: of the parameters.
            incoming: contains symbol and parameters.
            idempotency_key: of the request.
        """
        bind, record = record.bind, record.evolve(bind=None)
        assert bind is not None
        created = await self._commands.create_from_files(
            *(record, CheckpointTag(epoch), incoming),
            allow_extra=True,
            idempotency_key=idempotency_key,
        )
        if created.bind is not None:
            return created  # by an earlier request with the same key
        try:
            bound = await self._commands.bind(record.name, bind)
        except BaseException:
            await asyncio.shield(self._commands.delete(record.name))
            raise
        self._access.remember(bound)
        return bound


def _archived(
    record: ModuleRecord,
    files: ModelFiles,
    guessed: Mapping[str, Sequence[int]],
    found: Findings,
) -> ModuleRecord:
    """Return the module of an archive, with its labels on the outputs of as many classes."""
    assert files.archive is not None
    warnings = [
        f"the shape {tuple(shape)} of input {name!r}, which the archive does not say, was worked "
        "out from symbol and parameters; bind it otherwise by POST …/bind"
        for name, shape in guessed.items()
    ]
    warnings += found.warnings
    outputs = found.output_shapes
    count = len(files.classes)
    named = [name for name, shape in outputs.items() if len(shape) > 1 and shape[-1] == count]
    if count and not named:
        warnings.append(
            f"its {count:,} labels are not taken, because no output has as many classes: "
            + ", ".join(f"{name} is {tuple(shape)}" for name, shape in outputs.items())
        )
    facts = dataclasses.replace(files.archive, warnings=(*files.archive.warnings, *warnings))
    if not named:
        taken = {part: path for part, path in facts.taken.items() if part != "labels"}
        facts = dataclasses.replace(facts, taken=taken)
    return record.evolve(archive=facts, labels=dict.fromkeys(named, files.classes))


def _given(
    inputs: Mapping[str, DeclaredInput], buckets: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the declared shapes, with open axes as long as the largest bucket."""
    open_inputs = [name for name, one in inputs.items() if None in one.shape]
    if open_inputs and not buckets:
        name = open_inputs[0]
        raise Invalid("buckets", "none", f"lengths for the open axis of inputs.{name}.shape")
    if buckets and not open_inputs:
        expected = "with inputs, one of which has null in its shape where the length is"
        raise Invalid("inputs", sorted(inputs), expected, "or leave buckets out")
    longest = max(buckets, default=0)
    return {name: tuple(dim or longest for dim in one.shape) for name, one in inputs.items()}


def _check_inputs(
    declared: Mapping[str, DeclaredInput], names: Sequence[str], unknown: Sequence[str]
) -> None:
    for name in declared:
        if name not in names:
            raise Invalid(f"inputs.{name}", name, f"one of the inputs {', '.join(names) or '-'}")
    if unknown:
        raise Invalid.from_errors(
            FieldError(
                f"inputs.{name}.shape",
                "nothing, and no shape was found that fits the parameters",
                "its shape, the batch first",
                f"in modserve.yaml, for example inputs: {{{name}: {{shape: [1, 3, 224, 224]}}}}",
            )
            for name in unknown
        )


def _described_all(found: Findings, declared: Mapping[str, DeclaredInput]) -> tuple[InputDesc, ...]:
    return tuple(_described(name, declared.get(name), found) for name in found.data)


def _described(name: str, declared: DeclaredInput | None, found: Findings) -> InputDesc:
    if declared is None:
        return described_input(
            name, found.shapes[name], found.layouts.get(name), found.dtypes.get(name)
        )
    shape = tuple(dim or 0 for dim in declared.shape)
    return InputDesc(name=name, shape=shape, dtype=declared.dtype, layout=declared.layout)

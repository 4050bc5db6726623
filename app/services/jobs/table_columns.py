"""Columns of tables as inputs: which ones, and the numbers of the classes that texts name.

Both are decided when a job is submitted, and kept with its parameters, so that the job means the
same after a restart, however the module's labels change meanwhile.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from app.domain.dataset import DatasetRecord
from app.domain.job_params import DatasetSource, FitParams, JobParams, PredictParams
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid
from app.files.job_inputs import check_known, sources_of

__all__ = ["resolve_columns", "resolve_source"]

Classes: TypeAlias = Sequence[str]
S = TypeVar("S", bound=DatasetSource)

_MAX_SHOWN = 10


def resolve_columns(
    params: JobParams,
    module: ModuleRecord,
    records: Mapping[str, DatasetRecord],
    queued: Sequence[Classes],
) -> JobParams:
    """Return a job's parameters with all columns listed, and the classes of all texts.

    Args:
        params: of the job.
        module: on which it works.
        records: its datasets, by name.
        queued: classes that jobs before it are going to make the module's labels.

    Raises:
        Invalid: a column is unknown, or it is not certain which number a text has.
    """
    record = records[params.dataset]
    if isinstance(params, PredictParams):
        return resolve_source(params, module, record, (), queued)
    is_fit = isinstance(params, FitParams)
    params = resolve_source(params, module, record, module.label_names, queued, is_fit=is_fit)
    if isinstance(params, FitParams) and params.validation is not None:
        trained = {
            name: params.classes[array]
            for name, one in sources_of(params, module.label_names, record).items()
            for array in one.names
            if array in params.classes
        }
        record = records[params.validation.dataset]
        validation = resolve_source(
            params.validation,
            module,
            record,
            module.label_names,
            queued,
            trained=trained,
            prefix="validation.",
        )
        params = dataclasses.replace(params, validation=validation)
    return params


def resolve_source(
    source: S,
    module: ModuleRecord,
    record: DatasetRecord,
    labels: Sequence[str],
    queued: Sequence[Classes] = (),
    *,
    is_fit: bool = False,
    trained: Mapping[str, Classes] = MappingProxyType({}),
    prefix: str = "",
) -> S:
    """Return a source with all columns listed, and the classes of all texts.

    Args:
        source: of a job that works on the module.
        record: its dataset.
        labels: the inputs for labels that the job reads.
        queued: see ``resolve_columns``.
        is_fit: texts may become new classes.
        trained: by input, the classes of the data that this validates.
        prefix: path of the source in the request, with a trailing dot.

    Raises:
        Invalid: see ``resolve_columns``.
    """
    for name, one in source.inputs.items():
        for column in one.all_but or ():
            check_known(column, record, f"{prefix}inputs.{name}.all_but")
    texts = {array.name: array.classes for array in record.arrays if array.classes}
    for column, given in source.classes.items():
        _check_classes(given, texts.get(column, ()), f"{prefix}classes.{column}")
    read = dict.fromkeys([*module.data_names, *source.inputs, *labels])
    sources = sources_of(source, list(read), record)
    classes = dict(source.classes)
    for name, one in sources.items():
        field = f"{prefix}inputs.{name}"
        for column in one.names:
            if column not in texts or column in classes:
                continue
            if name not in module.label_names:
                raise _text_as_data(field, column, texts[column])
            known = [trained[name]] if name in trained else [*(module.labels.values() or queued)]
            if not known and is_fit:
                classes[column] = texts[column]
                continue
            found = next((one for one in known if set(texts[column]) <= set(one)), None)
            if found is None:
                raise _unknown_classes(module, field, column, texts[column], known)
            classes[column] = tuple(found)
    inputs = {
        name: sources[name] if one.all_but is not None else one
        for name, one in source.inputs.items()
    }
    return dataclasses.replace(source, inputs=inputs, classes=classes)


def _check_classes(given: Classes, texts: Classes, field: str) -> None:
    """Raise Invalid unless a list of classes has all texts of a column, each once."""
    if not texts:
        raise Invalid(field, "classes", "classes of columns of texts only")
    if len(set(given)) < len(given):
        twice = next(one for one in given if given.count(one) > 1)
        raise Invalid(field, f"{twice!r} twice", "each class once")
    if missing := [one for one in texts if one not in given]:
        raise Invalid(field, _shown(given), f"all classes of the column, {_shown(missing)} too")


def _text_as_data(field: str, column: str, texts: Classes) -> Invalid:
    return Invalid(
        field,
        f"column {column!r} of texts, such as {texts[0]!r}",
        "numbers, because only labels are numbered by themselves",
        "leave the column out, or number its texts in this job and in all that follow: "
        f'"classes": {json.dumps({column: texts[:_MAX_SHOWN]}, ensure_ascii=False)}',
    )


def _unknown_classes(
    module: ModuleRecord, field: str, column: str, texts: Classes, known: Sequence[Classes]
) -> Invalid:
    got = f"column {column!r} with {_shown(texts)}"
    example = json.dumps({column: texts[:_MAX_SHOWN]}, ensure_ascii=False)
    number = f'number them in this job: "classes": {example}'
    if not known:
        return Invalid(field, got, f"numbers, because module {module.name!r} has no labels", number)
    near = max(known, key=lambda one: len(set(one) & set(texts)))
    missing = [one for one in texts if one not in near]
    hint = f"{_shown(missing)} are not among these; {number}, or give the module other labels"
    return Invalid(field, got, f"classes that are known: {_shown(near)}", hint)


def _shown(texts: Classes) -> str:
    more = f" and {len(texts) - _MAX_SHOWN:,} more" if len(texts) > _MAX_SHOWN else ""
    return ", ".join(repr(one) for one in texts[:_MAX_SHOWN]) + more

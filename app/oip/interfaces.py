"""What models take and give, as their executors tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.domain.module import ModuleRecord, require
from app.errors import Unavailable
from app.link import calls
from app.oip.datatypes import datatype_of
from app.services.services import Services

__all__ = ["Interface", "TensorDesc", "interface_of"]

_ONE_ELEMENT_EACH = (-1, 1)
"""Shape of examples that are a text or the file of an image, as Triton's configurations have it."""


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """One input or output.

    Attributes:
        name: of it.
        datatype: the protocol's name of its dtype; ``BYTES`` of an input that is made from texts
            or images.
        shape: -1 for an axis whose length is not the same in all requests.
        batch_axis: of an input, the axis of the examples; -1 for none.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    batch_axis: int = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """Inputs and outputs.

    Attributes:
        inputs, outputs: in order.
        has_rows: whether the first axis of each of them has the examples.
    """

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    has_rows: bool


async def interface_of(services: Services, record: ModuleRecord) -> Interface:
    """Return what a model takes and gives; one that is not on its device is brought there.

    Raises:
        WrongStage, ParamsLost, Unavailable: it cannot be asked.
    """
    require(record, "predict")
    if not record.serving.is_loaded:
        raise Unavailable(f"model {record.public_name!r} was unloaded")
    reply = await services.access.ask(record, calls.DescribeModule(module=record.name))
    reply.release()
    plain = reply.result["interface"]
    return Interface(
        tuple(_input(record, one) for one in plain["inputs"]),
        tuple(_desc(one) for one in plain["outputs"]),
        plain["has_rows"],
    )


def _input(record: ModuleRecord, plain: dict[str, Any]) -> TensorDesc:
    if plain["name"] in record.transforms:
        return TensorDesc(plain["name"], "BYTES", _ONE_ELEMENT_EACH)
    return _desc(plain)


def _desc(plain: dict[str, Any]) -> TensorDesc:
    datatype = datatype_of(np.dtype(plain["dtype"]))
    return TensorDesc(plain["name"], datatype, tuple(plain["shape"]), plain.get("batch_axis", 0))

"""Images and texts transformed into the inputs of a module."""

from __future__ import annotations

import dataclasses
from functools import partial

from app.api.bodies import beside_the_loop
from app.api.decoder_pool import DecoderPool
from app.api.decoding import tensors_of
from app.api.v1.raw_values import Kinds, RawValues
from app.api.v1.text_tensors import text_tensors
from app.domain.codec import to_plain
from app.domain.module import ModuleRecord, require
from app.domain.transforms import ImageTransform, TextTransform, missing_size
from app.errors.tree import Invalid
from app.services.modules.module_access import ModuleAccess
from app.tensors.codec import Tensors

__all__ = ["RawInputs", "kinds_of"]


def kinds_of(record: ModuleRecord) -> Kinds:
    """Return the raw type of each input with a transform."""
    return {name: one.type for name, one in record.transforms.items()}


class RawInputs:
    """Transforms in separate processes, or in a thread."""

    def __init__(self, access: ModuleAccess, decoders: DecoderPool, most_pixels: int) -> None:
        """Prepare.

        Args:
            most_pixels: maximum per image; larger ones are not decoded.
        """
        self._access = access
        self._decoders = decoders
        self._most_pixels = most_pixels

    async def tensors(self, record: ModuleRecord, values: RawValues) -> Tensors:
        """Return the tensors of inputs.

        Raises:
            Invalid: an input has no transform, or images of one input result in different shapes.
            TooLarge: an image has too many pixels.
        """
        if record.bind is None:  # at least when that was last checked
            record = await self._access.record(record.name)
        if record.bind is None:
            require(record, "predict")
        tensors: Tensors = {}
        for name, examples in values.items():
            transform = record.transforms.get(name)
            if transform is None:
                known = ", ".join(record.transforms) or "none has one"
                raise Invalid(name, "an image or a text", f"an input that has a transform: {known}")
            if isinstance(transform, TextTransform):
                work = partial(text_tensors, record, name, transform, examples)
                tensors |= await beside_the_loop(sum(map(len, examples)), work)
            else:
                tensors |= await self._of_images(record, name, transform, examples)
        return tensors

    async def _of_images(
        self, record: ModuleRecord, name: str, transform: ImageTransform, images: list[bytes]
    ) -> Tensors:
        assert record.bind is not None
        bound = next(one for one in record.bind.data_shapes if one.name == name)
        transform = dataclasses.replace(transform, size=missing_size(transform, name, bound.shape))
        work = {
            "op": "images",
            "name": name,
            "transform": to_plain(transform),
            "sizes": [len(one) for one in images],
            "most_pixels": self._most_pixels,
        }
        decoded = await self._decoders.decode(work, b"".join(images))
        tensors, _ = tensors_of(decoded.plain, decoded.pieces[0])
        return tensors

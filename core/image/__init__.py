"""Reading, resizing, cropping and random augmentation of images (``mx.image``).

Pixels equal those of OpenCV 3.4 (see ``core.imgproc``). Random changes draw from Python's
``random`` and from ``numpy.random`` in MXNet's order: the same seeds give the same images.
"""

from __future__ import annotations

from ..ndarray import _internal
from . import detection, image, reading
from . import detection as det
from .detection import *  # noqa: F403 - all that MXNet has under that path
from .image import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["det", "detection", "image"]
__all__ += detection.__all__
__all__ += image.__all__

for _name, _function in (
    ("_cvcopyMakeBorder", reading.copyMakeBorder),
    ("_cvimdecode", reading.imdecode),
    ("_cvimread", reading.imread),
    ("_cvimresize", reading.imresize),
):  # MXNet's operators, which scripts call as mx.nd._internal._cvimdecode
    setattr(_internal, _name, _function)

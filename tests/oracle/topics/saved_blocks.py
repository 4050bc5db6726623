"""Files of ``Block.save``, and outputs of blocks that loaded them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oracle import golden_file

__all__ = ["DATA", "network", "write_files"]

DATA = np.linspace(-1, 1, 2 * 3 * 6 * 6).astype("float32").reshape(2, 3, 6, 6)


def network(mx: Any, prefix: str | None = None) -> Any:
    """Return blocks of all kinds, the body being hybridizable."""
    nn = mx.gluon.nn

    class Net(mx.gluon.Block):
        """A hybridizable body between plain blocks."""

        def __init__(self) -> None:
            super().__init__(prefix=prefix)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(
                    nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(5)
                )
                self.lists = nn.Sequential()
                self.lists.add(nn.Dense(3), nn.Lambda("relu"))

        def forward(self, x: Any) -> Any:
            return self.lists(self.body(x))

    return Net()


def write_files(mx: Any, folder: Path) -> None:
    """Write a model and its outputs."""
    block = network(mx, "saved_")
    block.initialize()
    block(mx.nd.array(DATA))
    for place, param in enumerate(block.collect_params().values()):
        param.set_data(mx.nd.array(np.random.RandomState(place).rand(*param.shape)))
    block.body.hybridize()
    output = block(mx.nd.array(DATA)).asnumpy()
    block.save(str(folder / "net"))
    origin = golden_file.origin_text(mx, "run_topics.py saved_blocks")
    golden_file.save(folder / "expected.npz", {"output": output}, origin)

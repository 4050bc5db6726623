"""Files of ``Block.save``, and outputs of blocks that loaded them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oracle import golden_file

__all__ = ["DATA", "network", "with_symbol_block", "write_files"]

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


def with_symbol_block(mx: Any) -> Any:
    """Return blocks that hold a symbol block, whose parameters have a common prefix."""
    data = mx.sym.var("data")
    features = mx.sym.FullyConnected(data, num_hidden=3, name="base_fc")
    features = mx.sym.BatchNorm(features, name="base_bn")
    inner = mx.gluon.nn.HybridSequential()
    inner.add(mx.gluon.SymbolBlock(features, data))
    block = mx.gluon.nn.HybridSequential()
    block.add(inner, mx.gluon.nn.Dense(2))
    return block


def write_files(mx: Any, folder: Path) -> None:
    """Write two models and their outputs."""
    block = network(mx, "saved_")
    block.initialize()
    block(mx.nd.array(DATA))
    for place, param in enumerate(block.collect_params().values()):
        param.set_data(mx.nd.array(np.random.RandomState(place).rand(*param.shape)))
    block.body.hybridize()
    output = block(mx.nd.array(DATA)).asnumpy()
    block.save(str(folder / "net"))
    holder = with_symbol_block(mx)
    holder.initialize()
    holder(mx.nd.array(DATA))
    for place, param in enumerate(holder.collect_params().values()):
        param.set_data(mx.nd.array(np.random.RandomState(place).rand(*param.shape)))
    holder.save_parameters(str(folder / "symbol_block.params"))
    held = holder(mx.nd.array(DATA)).asnumpy()
    origin = golden_file.origin_text(mx, "run_topics.py saved_blocks")
    golden_file.save(folder / "expected.npz", {"output": output, "symbol_block": held}, origin)

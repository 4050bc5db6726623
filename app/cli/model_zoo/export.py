"""Finds the network of the model zoo that a parameter file belongs to, and exports it.

The networks are tried one after the other: the names and shapes of the parameters must be those of
the file, and the network must compute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import MXNetError
from core.gluon.hybrid_block import HybridBlock
from core.gluon.model_zoo.vision import get_model, model_names
from core.ndarray import NDArray, load, zeros

__all__ = ["export_network", "network_names"]

_SIDE, _SIDE_OF_INCEPTION = 224, 299


def network_names() -> list[str]:
    """Return the names of the networks of the model zoo."""
    return sorted(model_names())


def export_network(params: Path, prefix: Path | None = None, name: str | None = None) -> str:
    """Write ``prefix-symbol.json`` and ``prefix-0000.params``; return the network's name.

    Args:
        params: a file by ``save_parameters`` or ``collect_params().save``.
        prefix: of the files to write; None takes the network's name.
        name: of the network; None tries all.

    Raises:
        ValueError: no network fits, or several do; the message says what to do.
        MXNetError: the file cannot be read.
    """
    arrays = load(params)
    if not isinstance(arrays, dict) or not arrays:
        raise ValueError(f"{params} has no arrays with names; gluon's save_parameters writes them")
    names = network_names() if name is None else [name.lower()]
    faults: dict[str, str] = {}
    found: dict[str, HybridBlock] = {}
    for one in names:
        try:
            found[one] = _loaded(one, params, arrays)
        except (MXNetError, ValueError) as error:
            faults[one] = str(error)
    if name is not None and not found:
        raise ValueError(f"{params} does not fit {name}: {faults[names[0]]}")
    if not found:
        raise ValueError(
            f"{params} fits none of the {len(names)} networks of gluon's model zoo: build the net "
            "by its own code (modserve run), then net.load_parameters(FILE), net.hybridize(), "
            "net(an example), net.export('net')"
        )
    if len(found) > 1:
        raise ValueError(f"{params} fits several networks; name one: {', '.join(found)}")
    ((chosen, net),) = found.items()
    net.export(os.fspath(chosen if prefix is None else prefix), 0)
    return chosen


def _loaded(name: str, params: Path, arrays: Mapping[str, NDArray]) -> HybridBlock:
    """Return a network with these parameters, which has computed once; raise MXNetError."""
    net = get_model(name, classes=_classes(arrays))
    places = net.collect_params()
    if len(places) != len(arrays):
        raise ValueError(f"it has {len(places)} parameters, and the file {len(arrays)}")
    if any("." in key for key in arrays):
        net.load_parameters(os.fspath(params))
    else:  # collect_params().save writes full names, which begin with the net's own
        own = next(iter(arrays)).partition("_")[0] + "_"
        renamed = {key.removeprefix(own): array for key, array in arrays.items()}
        places.load_dict(renamed, restore_prefix=net.prefix)
    net.hybridize()
    side = _SIDE_OF_INCEPTION if name.startswith("inception") else _SIDE
    net(zeros((1, 3, side, side))).wait_to_read()
    return net


def _classes(arrays: Mapping[str, NDArray]) -> int:
    """Return the number of classes: the length of the last layer's parameters."""
    outputs: Sequence[str] = [key for key in arrays if "output" in key] or list(arrays)
    return int(arrays[outputs[-1]].shape[0])

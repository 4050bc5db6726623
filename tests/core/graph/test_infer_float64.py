"""float64 is not mistaken for unknown (NumPy holds ``dtype("float64") == None`` to be true)."""

import numpy as np

from core.graph.infer import infer_graph
from core.graph.nodes import Entry, Node
from core.ops import make_operator


def test_float64_reaches_the_outputs():
    x = Entry(Node(None, "x"), 0)
    head = Entry(Node(make_operator("exp", "e", {}), "e", {}, [x]), 0)
    float64 = np.dtype("float64")
    assert infer_graph([head], {"x": (2,)}, {"x": float64}).dtype(head) is float64

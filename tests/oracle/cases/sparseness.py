"""IdentityAttachKLSparseReg: an identity whose gradient is not its derivative."""

from oracle.case import Case, normal, uniform

CASES = (
    Case(
        "plain",
        "IdentityAttachKLSparseReg",
        {},
        {"data": uniform(4, 3, low=0.05, high=0.95)},
        aux={"moving_avg": uniform(3, low=0.2, high=0.8)},
        numeric=False,
    ),
    Case(
        "attributes",
        "IdentityAttachKLSparseReg",
        {"sparseness_target": 0.3, "penalty": 0.5, "momentum": 0.5},
        {"data": uniform(5, 6, low=0.05, high=0.95)},
        aux={"moving_avg": uniform(6, low=0.2, high=0.8)},
        numeric=False,
    ),
    Case(
        "inference",
        "IdentityAttachKLSparseReg",
        {},
        {"data": normal(2, 3)},
        aux={"moving_avg": uniform(3, low=0.2, high=0.8)},
        train=False,
    ),
)

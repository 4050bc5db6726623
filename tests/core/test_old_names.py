"""Small modules imported by old scripts: ``log``, ``misc``, ``symbol_doc``."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import core as mx


def test_a_logger_adds_its_file_handler_once(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for _ in range(2):
        logger = mx.log.get_logger("old-names-file", str(path), "w", level=mx.log.INFO)
    logger.info("seen")
    logger.debug("unseen")
    logger.handlers[0].close()
    assert path.read_text() == "seen\n"
    with pytest.warns(DeprecationWarning, match="Use get_logger"):
        assert mx.log.getLogger() is logging.getLogger()


def test_lines_are_colored_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    logger = mx.log.get_logger("old-names-terminal", level=logging.DEBUG)
    logger.warning("high")
    logger.info("middle")
    logger.debug("low")
    lines = capsys.readouterr().err.splitlines()
    starts = ("\x1b[31mW", "\x1b[32mI", "\x1b[34mD")
    for line, start, end in zip(lines, starts, ("high", "middle", "low"), strict=True):
        assert line.startswith(start)
        assert line.endswith(f"]\x1b[0m {end}")


def test_the_deprecated_schedule_lowers_and_logs_the_rate(caplog: pytest.LogCaptureFixture) -> None:
    schedule = mx.misc.FactorScheduler(10, 0.5)
    schedule.base_lr = 0.4
    with caplog.at_level(logging.INFO):
        rates = [schedule(iteration) for iteration in (0, 9, 10, 15, 29)]
    assert rates == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.1])
    assert [record.getMessage() for record in caplog.records] == [
        "At Iteration [10]: Swith to new learning rate 0.20000",
        "At Iteration [29]: Swith to new learning rate 0.10000",
    ]
    with pytest.raises(ValueError, match="greater or equal"):
        mx.misc.FactorScheduler(0)
    with pytest.raises(ValueError, match="less than 1"):
        mx.misc.FactorScheduler(2, 1.0)
    with pytest.raises(NotImplementedError, match="must define __call__"):
        mx.misc.LearningRateScheduler()(0)


def test_shapes_of_outputs_by_name() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    shapes = mx.symbol_doc.SymbolDoc.get_output_shape(net, data=(2, 5))
    assert shapes == {"fc_output": (2, 3)}

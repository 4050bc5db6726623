"""The device side: one loop and one host per device, and the modules, predictions and jobs on
it."""

"""What runs on a device: one loop, one host, and the modules, predictions and jobs it serves."""

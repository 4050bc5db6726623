"""Fast kernels: implementations of single steps for one kind of processor."""

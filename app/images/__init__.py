"""Images from the bytes of their files to tensors. It runs in decoder processes alone."""

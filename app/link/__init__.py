"""Communication between the API process and executors: frames, shared memory, processes, calls."""

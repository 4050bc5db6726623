"""How the API process and an executor talk: frames, shared memory, processes, calls, messages."""

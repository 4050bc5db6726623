"""What keeps a server running: storage, recovery, executors, notifications, the disk."""

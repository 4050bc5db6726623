"""The REST API: modules, jobs, datasets, checkpoints, versions and predictions."""

"""The job queue: submissions, leases, attempts and their reports."""

"""One revision a file, numbered in order; a released revision is never edited."""

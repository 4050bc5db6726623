"""One revision a file, in the order of their numbers; one that was released is never edited."""

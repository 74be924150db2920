"""Arrays: others', and our own in memory that is shared, mapped or of a pool."""

"""The connection to a daemon."""

"""What the daemon tells and what goes wrong, as values."""

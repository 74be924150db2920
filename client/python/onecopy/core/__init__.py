"""Transfers, and the memory that they move. Imports neither onecopy.formats nor onecopy.integrations."""

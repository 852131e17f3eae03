"""Generators: from a case and its masks to items and their key."""

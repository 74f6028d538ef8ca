"""A writer for each output format, from findings to text."""

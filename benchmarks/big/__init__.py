"""Data larger than memory: files of 1, 10 and 16 GB fitted under a hard limit, next to merely reading them."""

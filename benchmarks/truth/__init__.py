"""What `scan_truth.py` is made of: cases to run, an observer of the writes they make, and the judge."""

"""The error catalogue: what messages of engines, of torch and of modelguard mean, and what to do about them.

`match(text)` finds the errors that a log or a traceback tells of, `by_id(name)` a record, `remedy(text)` a sentence of advice.
"""

from modelguard.catalog.lookup import Match, by_id, match, remedy, tagged
from modelguard.catalog.records import Record, dataset_version, records

__all__ = ["Match", "Record", "by_id", "dataset_version", "match", "records", "remedy", "tagged"]

"""Makes, proves and restores backups of a Postgresql: `python3 -m postgres_backup ACTION` is one run.

Pure functions decide (`wal`, `targets`, `words`, `judging`), thin code acts. The engine, pgBackRest, is one
module behind the port in `engine`.
"""

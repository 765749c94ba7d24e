"""The engine pgBackRest, called by argument list; what it says goes through `words`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from postgres_backup import programs, words
from postgres_backup.engine import Repository
from postgres_backup.outcome import WRONG_PASSPHRASE, Failed
from postgres_backup.request import CONFIG, EngineConfig

STANZA = "main"
CATALOG_SECONDS = 300.0
ARCHIVE_SECONDS = 60
"""How long a backup waits for its WAL to arrive: the archiver may have been at work elsewhere."""


class PgBackRest:
    """The port `Engine`. The operator makes the configuration; here is what a call adds to it."""

    def __init__(self, deadline: programs.Deadline, *, config: Path = CONFIG) -> None:
        self._deadline, self._config = deadline, config
        self._known = EngineConfig.load(config)

    def reach(self) -> None:
        self._run("repo-ls", stanza=False, about=words.STORE, seconds=CATALOG_SECONDS)

    def left(self) -> Sequence[str]:
        out = self._run(
            "repo-ls",
            "--recurse",
            "--output=json",
            stanza=False,
            about=words.STORE,
            seconds=CATALOG_SECONDS,
        )
        return words.files(out)

    def prepare(self) -> None:
        self._run("stanza-create", about=words.BACKUP, catalog=True)

    def backup(self, *, full: bool, uid: str) -> None:
        args = [f"--type={'full' if full else 'incr'}", f"--archive-timeout={ARCHIVE_SECONDS}"]
        if uid:
            args.append(f"--annotation=kindling.dev/uid={uid}")
        # Retention has a call of its own: a failure of it is not one of the backup.
        self._run("backup", *args, "--no-expire-auto", about=words.BACKUP)

    def expire(self) -> None:
        self._run("expire", about=words.CATALOG)

    def delete(self) -> None:
        # Without `stop` it is refused; `force`, since the server may run, and does not archive.
        self._run("stop", about=words.CATALOG)
        self._run("stanza-delete", "--force", *self._no_host(), about=words.CATALOG)

    def info(self) -> Repository:
        out = self._run("info", "--output=json", about=words.CATALOG, seconds=CATALOG_SECONDS)
        try:
            return words.repository(out)
        except words.Unusable as unusable:
            self._note("info", unusable.said)
            raise Failed(
                *words.reason(
                    unusable.status, unusable.said, about=words.CATALOG, database=self._known.database
                )
            ) from None

    def segments(self, repository: Repository, *, since: str) -> Sequence[str]:
        folder = f"archive/{STANZA}/{repository.wal_folder}"
        out = self._run(
            "repo-ls",
            folder,
            "--recurse",
            "--output=json",
            stanza=False,
            about=words.CATALOG,
            seconds=CATALOG_SECONDS,
        )
        return words.segments(out, since=since)

    def history(self, repository: Repository, timeline: int) -> str | None:
        file = f"archive/{STANZA}/{repository.wal_folder}/{timeline:08X}.history"
        done = self._call("repo-get", file, "--ignore-missing", stanza=False, seconds=CATALOG_SECONDS)
        if done.status in (0, 1):
            return done.out if done.status == 0 else None
        raise self._failed("repo-get", done, about=words.CATALOG)

    def restore(self, label: str, *, into: Path, timeline: int, again: bool = False) -> None:
        self._run(
            "restore",
            f"--set={label}",
            f"--pg1-path={into}",
            *self._no_host(),
            f"--target-timeline={timeline}",
            "--archive-mode=off",
            *(["--delta"] if again else []),
            about=words.DATA,
        )

    def restore_command(self, directory: Path) -> str:
        # It goes through the shell, as all of PostgreSQL's commands: none of its words needs quoting there.
        return " ".join([*self._get(directory), "%f", '"%p"'])

    def fetch(self, segment: str, *, to: Path, directory: Path) -> bool:
        done = programs.run(
            [*self._get(directory), "--no-archive-async", segment, str(to)],
            seconds=self._deadline.left(CATALOG_SECONDS),
        )
        if done.status in (0, 1):
            return done.status == 0
        raise self._failed("archive-get", done, about=words.DATA)

    def _get(self, directory: Path) -> list[str]:
        return [
            "pgbackrest",
            f"--config={self._config}",
            f"--stanza={STANZA}",
            "--log-level-console=off",
            "--log-level-stderr=error",
            *self._no_host(),
            f"--pg1-path={directory}",
            "archive-get",
        ]

    def _no_host(self) -> list[str]:
        """For what is done on files of this Pod, where the configuration has the database elsewhere."""
        return ["--reset-pg1-host"] if self._known.database else []

    def _run(
        self,
        command: str,
        *args: str,
        about: str,
        catalog: bool = False,
        stanza: bool = True,
        seconds: float = float("inf"),
    ) -> str:
        done = self._call(command, *args, stanza=stanza, seconds=seconds)
        if done.status == 0:
            return done.out
        failed = self._failed(command, done, about=about)
        if failed.reason == WRONG_PASSPHRASE and not catalog and about == words.BACKUP:
            # The catalog could be read a moment ago, so the passphrase is right.
            failed = Failed(
                *words.reason(done.status, done.error, about=words.DATA, database=self._known.database)
            )
        raise failed

    def _call(self, command: str, *args: str, stanza: bool, seconds: float) -> programs.Done:
        return programs.run(
            [
                "pgbackrest",
                f"--config={self._config}",
                *([f"--stanza={STANZA}"] if stanza else []),
                "--log-level-console=off",
                "--log-level-stderr=warn",
                command,
                *args,
            ],
            seconds=self._deadline.left(seconds),
        )

    def _failed(self, command: str, done: programs.Done, *, about: str) -> Failed:
        self._note(command, f"code {done.status} {done.error}")
        return Failed(*words.reason(done.status, done.error, about=about, database=self._known.database))

    def _note(self, command: str, said: str) -> None:
        programs.note(f"pgbackrest {command}: {said}", secrets=self._known.secrets)

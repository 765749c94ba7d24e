package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Files are directories of the Pod, by their paths.
type files struct{ data, config, trial string }

const (
	// The operator knows a start without data by this line.
	lost = "DataLost: the volume has no data, and it had some: no database was initialised"
	// In the data directory, a copy of parameters with which postgres would not start; the operator reads it.
	refused = "parameters.refused"
	auto    = "postgresql.auto.conf"
	// Beside the data directory, the one from before a restore in place; and in the new one, that a server has
	// taken connections with it.
	previous, answered = ".previous", "kindling.answered"
)

var errLost = errors.New("no database was initialised")

func initdb(files files, user, password string) error {
	if err := ensureData(files, user, password); err != nil {
		return err
	}
	// No parameter keeps the server from starting, nor does a volume that is full: what was there stays.
	if err := putParameters(files); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-init: the parameters stay as they are:", err)
	}
	if err := removeRestored(files); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-init: what a restore left is not removed:", err)
	}
	return nil
}

// EnsureData leaves the data directory complete. It is made beside its place and then renamed, so that it is seen
// complete or not at all, and the next run heals what one that was killed has left.
func ensureData(files files, user, password string) error {
	switch _, err := os.Stat(filepath.Join(files.data, "PG_VERSION")); {
	case err == nil:
		// A volume's group change (fsGroup) may have widened it, which postgres refuses.
		return os.Chmod(files.data, 0o700)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	switch identifier, err := os.Stat(filepath.Join(files.config, "system-identifier")); {
	case err == nil && identifier.Size() > 0:
		fmt.Println(lost)
		return errLost
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	partial := files.data + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	made := exec.Command("initdb", "--pgdata="+partial, "--username="+user, "--pwfile="+password,
		"--auth-local=peer", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8",
		"--data-checksums", "--no-instructions")
	made.Stdout, made.Stderr = os.Stdout, os.Stderr
	if err := made.Run(); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	// Not os.Rename, which takes no empty directory's place.
	if err := syscall.Rename(partial, files.data); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", partial, files.data, err)
	}
	return sync(filepath.Dir(files.data))
}

// PutParameters has the server start with the parameters of the ConfigMap if it would: they take the place of
// what ALTER SYSTEM left. If not, it says so, and keeps what was there, if the server starts with that; else it
// is to start with none.
func putParameters(files files) error {
	inPlace, inPlaceRefused := filepath.Join(files.data, auto), filepath.Join(files.data, refused)
	wanted, err := os.ReadFile(filepath.Join(files.config, "parameters.conf"))
	if err != nil {
		return err
	}
	passed, err := passes(files, wanted)
	if err != nil {
		return err
	}
	if passed {
		if err := replace(inPlace, wanted, 0o600); err != nil {
			return err
		}
		// With what a run that was killed has left.
		return errors.Join(remove(inPlaceRefused), remove(inPlaceRefused+".new"))
	}
	fmt.Fprintln(os.Stderr, "postgres-init: postgres does not start with the parameters: not put in place")
	if err := replace(inPlaceRefused, wanted, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-init:", err)
	}
	before, err := os.ReadFile(inPlace)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if passed, err := passes(files, before); passed || err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "postgres-init: nor does it with those before: it starts with none")
	return replace(inPlace, nil, 0o600)
}

// Passes says whether postgres would start with these parameters. Asked for a value that it has to compute, it goes
// through all checks of a start, the libraries included, and starts nothing; it does so in a directory of links, so
// that nothing is changed before it is known to be good.
func passes(files files, parameters []byte) (bool, error) {
	if err := os.RemoveAll(files.trial); err != nil {
		return false, err
	}
	if err := os.MkdirAll(files.trial, 0o700); err != nil {
		return false, err
	}
	for _, name := range []string{"PG_VERSION", "global", "postgresql.conf"} {
		if err := os.Symlink(filepath.Join(files.data, name), filepath.Join(files.trial, name)); err != nil {
			return false, err
		}
	}
	if err := write(filepath.Join(files.trial, auto), parameters, 0o600); err != nil {
		return false, err
	}
	trial := exec.Command("postgres", "-D", files.trial, "-C", "data_checksums")
	trial.Stderr = os.Stderr
	err := trial.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return false, nil
	}
	return err == nil, err
}

// RemoveRestored gives up what restores in place have left beside the data, while none keeps it: what a failed one has
// not finished, and the data from before, once the server has answered with the data that took its place.
func removeRestored(files files) error {
	if exists, err := exists(filepath.Join(files.config, "keep-previous")); exists || err != nil {
		return err
	}
	left := []string{files.data + ".partial", files.data + ".restored"}
	switch exists, err := exists(filepath.Join(files.data, answered)); {
	case err != nil:
		return err
	case exists:
		left = append(left, files.data+previous)
	}
	var failed error
	for _, path := range left {
		failed = errors.Join(failed, os.RemoveAll(path))
	}
	return failed
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

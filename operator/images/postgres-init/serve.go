package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// The first release of PostgreSQL that writes its log as JSON.
const firstWithJSON = 15

// What PostgreSQL's collector is asked to write: no other file than these, for ever. Of "postgresql.log" it makes
// "postgresql.json" itself; what is no message of the server (a library's, a command's output) goes to the former.
const textLog, jsonLog = "postgresql.log", "postgresql.json"

// The descriptor by which the server, and so its collector, has the container's standard error for JSON.
const outputOfServer = 3

var release = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// Serving is what the supervisor knows of its server; password is the superuser's file. Without logs, the server logs
// as it likes.
type serving struct {
	files                                               files
	sockets, port, user, password, request, ready, logs string
	seconds                                             int
}

// Serve runs the server until that ends, and ends as it did. A log as text is better than no server: where JSON cannot
// be had, it says so and the server logs text.
func serve(of serving, server []string) error {
	if len(server) == 0 {
		return errors.New("give the server's program and its arguments after --")
	}
	program, err := exec.LookPath(server[0])
	if err != nil {
		return err
	}
	inherited := []uintptr{0, 1, 2}
	if of.logs != "" {
		output, settings, err := settingsOfJSON(program, of.logs)
		if err != nil {
			say("the server logs text, not JSON: %v", err)
		} else {
			server, inherited = append(server, settings...), append(inherited, uintptr(output))
		}
	}
	if err := listen(of); err != nil {
		return err
	}
	status, err := supervise(of, program, server, inherited)
	if err != nil {
		return err
	}
	os.Exit(status)
	return nil
}

// SettingsOfJSON are a copy of the container's standard error and the server's arguments. PostgreSQL writes JSON to
// files alone, by a process whose own standard error is closed. So the copy is kept open for it, under the names of
// these files.
func settingsOfJSON(program, logs string) (output int, settings []string, err error) {
	if err := writesJSON(program); err != nil {
		return 0, nil, err
	}
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return 0, nil, err
	}
	if output, err = syscall.Dup(syscall.Stderr); err != nil {
		return 0, nil, err
	}
	syscall.CloseOnExec(output) // the server gets it by its own number, and nobody else
	// As the collector will: a container's output may belong to another user.
	opened, err := os.OpenFile(descriptor(output), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, nil, errors.Join(err, syscall.Close(output))
	}
	_ = opened.Close()
	for _, name := range []string{textLog, jsonLog} {
		path := filepath.Join(logs, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the container before
			return 0, nil, err
		}
		if err := os.Symlink(descriptor(outputOfServer), path); err != nil {
			return 0, nil, err
		}
	}
	for _, setting := range []string{
		"logging_collector=on", "log_destination=jsonlog", "log_directory=" + logs, "log_filename=" + textLog,
		"log_rotation_age=0", "log_rotation_size=0", "log_truncate_on_rotation=off",
	} {
		settings = append(settings, "-c", setting)
	}
	return output, settings, nil
}

func descriptor(number int) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(number))
}

func writesJSON(program string) error {
	printed, err := exec.Command(program, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", program, err)
	}
	found := release.FindSubmatch(printed)
	if found == nil {
		return fmt.Errorf("%s --version printed %q", program, printed)
	}
	if major, _ := strconv.Atoi(string(found[1])); major < firstWithJSON {
		return fmt.Errorf("PostgreSQL %d has no log as JSON, %d and later have", major, firstWithJSON)
	}
	return nil
}

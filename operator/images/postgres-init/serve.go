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

var release = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)

// Serve becomes the server, with its log as JSON on the container's standard error. A log as text is better than no
// server: where the one cannot be had, it says so and is the other.
func serve(logs string, server []string) error {
	if len(server) == 0 {
		return errors.New("give the server's program and its arguments after --")
	}
	program, err := exec.LookPath(server[0])
	if err != nil {
		return err
	}
	settings, err := settingsOfJSON(program, logs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgres-init: the server logs text, not JSON:", err)
	}
	return syscall.Exec(program, append(server, settings...), os.Environ())
}

// SettingsOfJSON are the server's arguments. PostgreSQL writes JSON to files alone, by a process whose own standard
// error is closed. So a copy of the container's is kept open for it, under the names of these files.
func settingsOfJSON(program, logs string) ([]string, error) {
	if err := writesJSON(program); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, err
	}
	// Unlike Go's own files, this one stays open in the program that follows.
	output, err := syscall.Dup(syscall.Stderr)
	if err != nil {
		return nil, err
	}
	target := filepath.Join("/proc/self/fd", strconv.Itoa(output))
	// As the collector will: a container's output may belong to another user.
	opened, err := os.OpenFile(target, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(output))
	}
	_ = opened.Close()
	for _, name := range []string{textLog, jsonLog} {
		path := filepath.Join(logs, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of the container before
			return nil, err
		}
		if err := os.Symlink(target, path); err != nil {
			return nil, err
		}
	}
	var settings []string
	for _, setting := range []string{
		"logging_collector=on", "log_destination=jsonlog", "log_directory=" + logs, "log_filename=" + textLog,
		"log_rotation_age=0", "log_rotation_size=0", "log_truncate_on_rotation=off",
	} {
		settings = append(settings, "-c", setting)
	}
	return settings, nil
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

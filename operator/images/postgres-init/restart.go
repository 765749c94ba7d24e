package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// In the data directory, what a server says of itself: its process in the first line, the second of its start in the
// third, and in the eighth whether it takes connections.
const lockFile = "postmaster.pid"

var errRefused = errors.New("the server is not restarted")

// Server is one that listens on a socket in this container.
type server struct{ sockets, port, user string }

// Asked is a request to restart this server, which runs, with these parameters. The operator writes it by SQL.
type asked struct {
	server     int
	started    string
	parameters []byte
}

// Parse reads a request, `PID SECOND BASE64` and the end of a line. Without that it is not complete yet.
func parse(content []byte) (found asked, complete bool, err error) {
	line, _, complete := bytes.Cut(content, []byte("\n"))
	words := strings.Fields(string(line))
	if !complete || len(words) != 3 {
		return asked{}, complete, fmt.Errorf("%d words in place of 3", len(words))
	}
	found.started = words[1]
	if found.server, err = strconv.Atoi(words[0]); err == nil {
		found.parameters, err = base64.StdEncoding.DecodeString(words[2])
	}
	return found, true, err
}

func lockOf(data string) (server int, started, state string) {
	content, _ := os.ReadFile(filepath.Join(data, lockFile))
	lines := strings.Split(string(content), "\n")
	if len(lines) < 3 {
		return 0, "", ""
	}
	server, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	if len(lines) > 7 {
		state = strings.TrimSpace(lines[7])
	}
	return server, strings.TrimSpace(lines[2]), state
}

func isReady(data string, server int) bool {
	found, _, state := lockOf(data)
	return found == server && state == "ready"
}

// Prepare fails where postgres would not start with the parameters, which are then left for the operator to read. Else
// it has the server write what it has in memory, so that there is little left to write when it ends.
func prepare(files files, of server, parameters string, seconds int) error {
	wanted, err := os.ReadFile(parameters)
	if err != nil {
		return err
	}
	passed, err := passes(files, wanted)
	if err != nil {
		return err
	}
	if !passed {
		return errors.Join(errRefused, replace(filepath.Join(files.data, refused), wanted, 0o600))
	}
	within, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	// Twice: while the first one is written, which may take its time, more comes.
	checkpoint := exec.CommandContext(within, "psql", "--no-psqlrc", "--quiet", "--no-password",
		"--command=CHECKPOINT", "--command=CHECKPOINT",
		fmt.Sprintf("host=%s port=%s user=%s dbname=postgres connect_timeout=3 application_name=kindling "+
			"options='-c statement_timeout=0'", of.sockets, of.port, of.user))
	checkpoint.Stderr = os.Stderr
	if err := checkpoint.Run(); err != nil {
		say("no checkpoint before the restart, which takes longer: %v", err)
	}
	return nil
}

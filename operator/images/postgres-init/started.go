package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Server is one that listens on a socket in this container; password is the superuser's file.
type server struct{ sockets, port, user, password string }

// The probe's time limit is 5 seconds. What takes longer than this is given up.
const most = 4 * time.Second

// The server reads the file itself, so that no statement, log or argument has the password in it. What is executed
// within a DO is not logged, but the context of an error is: nothing of this session is.
const statement = `DO $do$
DECLARE word text := pg_read_file(%s, 0, 10000, true);
BEGIN
  IF word <> '' THEN EXECUTE format('ALTER ROLE %%I PASSWORD %%L', %s, word); END IF;
END $do$`

const settings = "-c search_path=pg_catalog" +
	" -c default_transaction_read_only=off" +
	" -c password_encryption=scram-sha-256" +
	" -c synchronous_commit=local" +
	" -c statement_timeout=3s" +
	" -c log_statement=none" +
	" -c log_min_messages=panic" +
	" -c log_min_duration_statement=-1" +
	" -c pg_stat_statements.track=none"

// Started fails while the server takes no connections. Once it does, it sets the superuser's password from its
// file, so that one that was edited or lost counts from each start on; a password that cannot be set keeps no
// server from starting. Where there is data from before a restore, it notes that there is an answer with the new one.
func started(server server) error {
	within, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	ready := exec.CommandContext(within, "pg_isready", "--quiet", "--host="+server.sockets, "--port="+server.port,
		"--dbname=postgres")
	if err := ready.Run(); err != nil {
		return fmt.Errorf("the server takes no connections: pg_isready: %w", err)
	}
	// Its output goes nowhere: the context of an error would have the password in it.
	_ = exec.CommandContext(within, "psql", "--no-psqlrc", "--quiet", "--no-password",
		"--command="+fmt.Sprintf(statement, literal(server.password), literal(server.user)),
		fmt.Sprintf("host=%s port=%s user=%s dbname=postgres connect_timeout=3 application_name=kindling options='%s'",
			server.sockets, server.port, server.user, settings)).Run()
	if data := os.Getenv("PGDATA"); data != "" {
		if kept, _ := exists(data + previous); kept {
			_ = os.WriteFile(filepath.Join(data, answered), nil, 0o600)
		}
	}
	return nil
}

func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

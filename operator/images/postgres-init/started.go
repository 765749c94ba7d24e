package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// The probes' time limit is 5 seconds. What takes longer than this is given up.
	most = 4 * time.Second
	// A server that starts is asked again after the first, and then after twice as long each time, up to the last.
	firstPause, lastPause = 20 * time.Millisecond, time.Second
)

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

// Start waits for the server to take logins: the kubelet asks when it has seen the container run, and then only
// after the probe's period.
func (r *readiness) start(until time.Time) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.begin(until)
		if err == nil || time.Now().Add(pause).After(until) {
			return err
		}
		time.Sleep(pause)
	}
}

// Begin fails while the server takes no logins. Once it does, it sets the superuser's password from its file, so that
// one that was edited or lost counts from each start on; a password that cannot be set keeps no server from starting.
// Where there is data from before a restore, it notes that there is an answer with the new one.
func (r *readiness) begin(until time.Time) error {
	session, in, err := login(r.socket, until, "user", r.of.user, "database", "postgres", "options", settings)
	if err != nil {
		return err
	}
	if in {
		// Its error goes nowhere: the context of one would have the password in it.
		execute(session, fmt.Sprintf(statement, literal(r.of.password), literal(r.of.user)))
	}
	if session != nil {
		leave(session)
	}
	if kept, _ := exists(r.of.files.data + previous); kept {
		_ = os.WriteFile(filepath.Join(r.of.files.data, answered), nil, 0o600)
	}
	return nil
}

// Execute has the server execute a statement, once that is ready for one, and is over when it is so again.
func execute(session net.Conn, statement string) {
	for asked := false; ; {
		switch kind, _, err := message(session); {
		case err != nil || kind == refusal && !asked || kind == idle && asked:
			return
		case kind == idle:
			words := append([]byte(statement), 0)
			query := binary.BigEndian.AppendUint32([]byte{simple}, uint32(4+len(words)))
			if _, err := session.Write(append(query, words...)); err != nil {
				return
			}
			asked = true
		}
	}
}

func literal(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

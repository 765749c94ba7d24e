package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	locks "sync"
	"time"
)

// The probes' time limit is 5 seconds. What takes longer than this is given up.
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

// Startup answers the kubelet's startup probe. One question at a time is put to the server: whoever comes meanwhile has
// its answer.
type startup struct {
	of     serving
	socket string

	lock  locks.Mutex
	done  bool
	asked time.Time
	known error
}

func (s *startup) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if err := s.ask(); err != nil {
		http.Error(answer, err.Error(), http.StatusServiceUnavailable)
	}
}

func (s *startup) ask() error {
	came := time.Now()
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.done && s.asked.Before(came) {
		s.known = s.started(time.Now().Add(most))
		s.done, s.asked = s.known == nil, time.Now()
	}
	return s.known
}

// Started fails while the server takes no logins. Once it does, it sets the superuser's password from its file, so that
// one that was edited or lost counts from each start on; a password that cannot be set keeps no server from starting.
// Where there is data from before a restore, it notes that there is an answer with the new one.
func (s *startup) started(until time.Time) error {
	session, in, err := login(s.socket, until, "user", s.of.user, "database", "postgres", "options", settings)
	if err != nil {
		return err
	}
	if in {
		// Its error goes nowhere: the context of one would have the password in it.
		execute(session, fmt.Sprintf(statement, literal(s.of.password), literal(s.of.user)))
	}
	if session != nil {
		leave(session)
	}
	if kept, _ := exists(s.of.files.data + previous); kept {
		_ = os.WriteFile(filepath.Join(s.of.files.data, answered), nil, 0o600)
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

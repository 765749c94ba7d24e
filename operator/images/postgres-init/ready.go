package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	locks "sync"
	"time"
)

const (
	// PostgreSQL's protocol 3.0, and the SQLSTATE of a server that starts, stops or recovers.
	protocol     = 3 << 16
	cannotLogIn  = "57P03"
	authenticate = 'R'
	refusal      = 'E'
	terminate    = 'X'
	// A refusal has words beside its code; the server sends no more of them before a login.
	longest = 30000
)

// Readiness answers the kubelet, whose question costs a process of the container runtime where it is a command. One
// server is asked at a time, and what it said holds for a second: whoever else asks gives it no more to do.
type readiness struct {
	socket, user string

	lock  locks.Mutex
	asked time.Time
	known error
}

const fresh = time.Second

func readinessOf(of serving) *readiness {
	return &readiness{socket: filepath.Join(of.sockets, ".s.PGSQL."+of.port), user: of.user}
}

// Listen serves it for as long as the process lives.
func (r *readiness) listen(port string) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	server := http.Server{Handler: r, ReadTimeout: most, WriteTimeout: 2 * most, MaxHeaderBytes: 4096}
	go func() { say("readiness is not served any more: %v", server.Serve(listener)) }()
	return nil
}

func (r *readiness) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if err := r.ask(); err != nil {
		http.Error(answer, err.Error(), http.StatusServiceUnavailable)
	}
}

func (r *readiness) ask() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.asked.IsZero() || time.Since(r.asked) > fresh {
		r.known = takesLogins(r.socket, r.user)
		r.asked = time.Now()
	}
	return r.known
}

// TakesLogins is nil where the server goes on to let somebody in, or refuses that for a reason of its own, too many
// sessions for one. That is what pg_isready asks.
func takesLogins(socket, user string) error {
	connection, err := net.DialTimeout("unix", socket, most)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(most)); err != nil {
		return err
	}
	if _, err := connection.Write(startup(user)); err != nil {
		return err
	}
	kind, body, err := message(connection)
	if err != nil {
		return fmt.Errorf("the server has not answered: %w", err)
	}
	if kind == authenticate {
		// To the end, so that the server has nobody to miss in its log.
		_, _ = connection.Write([]byte{terminate, 0, 0, 0, 4})
		_, _ = io.Copy(io.Discard, connection)
		return nil
	}
	if kind != refusal {
		return fmt.Errorf("the server answered with %q", kind)
	}
	for _, field := range strings.Split(body, "\x00") {
		if field == "C"+cannotLogIn {
			return errors.New("the server takes no logins: it starts, stops or recovers")
		}
	}
	return nil
}

func startup(user string) []byte {
	// Not in a database where a user may be: the server counts sessions, to say whether anybody uses it. One that
	// is over at once keeps nobody from making a database of this one.
	words := strings.Join([]string{"user", user, "database", "template1", "application_name", "kindling", "", ""}, "\x00")
	made := binary.BigEndian.AppendUint32(nil, uint32(8+len(words)))
	made = binary.BigEndian.AppendUint32(made, protocol)
	return append(made, words...)
}

func message(from io.Reader) (kind byte, body string, err error) {
	header := make([]byte, 5)
	if _, err := io.ReadFull(from, header); err != nil {
		return 0, "", err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < 4 || length > longest {
		return 0, "", fmt.Errorf("a message of %d bytes", length)
	}
	content := make([]byte, length-4)
	_, err = io.ReadFull(from, content)
	return header[0], string(content), err
}

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
	noPassword   = "\x00\x00\x00\x00"
	refusal      = 'E'
	idle         = 'Z'
	simple       = 'Q'
	terminate    = 'X'
	// A refusal has words beside its code; nothing longer is read.
	longest = 30000
)

// Readiness answers the kubelet, whose question costs a process of the container runtime where it is a command. One
// question at a time is put to the server, and what it said holds for a second: whoever else asks gives it no more to do.
type readiness struct {
	of     serving
	socket string

	lock    locks.Mutex
	started bool
	asked   time.Time
	known   error
}

const fresh = time.Second

// Listen answers the kubelet for as long as the process lives.
func listen(of serving) error {
	listener, err := net.Listen("tcp", ":"+of.ready)
	if err != nil {
		return err
	}
	page := &readiness{of: of, socket: filepath.Join(of.sockets, ".s.PGSQL."+of.port)}
	server := http.Server{Handler: page, ReadTimeout: most, WriteTimeout: 2 * most, MaxHeaderBytes: 4096}
	go func() { say("the probes are not answered any more: %v", server.Serve(listener)) }()
	return nil
}

func (r *readiness) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if err := r.ask(); err != nil {
		http.Error(answer, err.Error(), http.StatusServiceUnavailable)
	}
}

func (r *readiness) ask() error {
	came := time.Now()
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case !r.asked.Before(came): // while this one waited
		return r.known
	case !r.started:
		r.known = r.start(time.Now().Add(most))
		r.started = r.known == nil
	case time.Since(r.asked) > fresh:
		r.known = takesLogins(r.socket, r.of.user)
	default:
		return r.known
	}
	r.asked = time.Now()
	return r.known
}

// TakesLogins is nil where the server goes on to let somebody in, or refuses that for a reason of its own, too many
// sessions for one. That is what pg_isready asks.
func takesLogins(socket, user string) error {
	// Not in a database where a user may be: the server counts sessions, to say whether anybody uses it. One that
	// is over at once keeps nobody from making a database of this one.
	session, _, err := login(socket, time.Now().Add(most), "user", user, "database", "template1")
	if session != nil {
		leave(session)
	}
	return err
}

// Login fails where the server takes no logins. One that refuses this one for a reason of its own gives no session, and
// one that is in was asked for no password: the server lets in whoever is its own user.
func login(socket string, until time.Time, words ...string) (session net.Conn, in bool, err error) {
	connection, err := net.DialTimeout("unix", socket, time.Until(until))
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if session == nil {
			_ = connection.Close()
		}
	}()
	if err := connection.SetDeadline(until); err != nil {
		return nil, false, err
	}
	if _, err := connection.Write(greeting(words)); err != nil {
		return nil, false, err
	}
	kind, body, err := message(connection)
	if err != nil {
		return nil, false, fmt.Errorf("the server has not answered: %w", err)
	}
	if kind == authenticate {
		return connection, body == noPassword, nil
	}
	if kind != refusal {
		return nil, false, fmt.Errorf("the server answered with %q", kind)
	}
	for _, field := range strings.Split(body, "\x00") {
		if field == "C"+cannotLogIn {
			return nil, false, errors.New("the server takes no logins: it starts, stops or recovers")
		}
	}
	return nil, false, nil
}

func greeting(words []string) []byte {
	all := strings.Join(append(words, "application_name", "kindling", "", ""), "\x00")
	made := binary.BigEndian.AppendUint32(nil, uint32(8+len(all)))
	made = binary.BigEndian.AppendUint32(made, protocol)
	return append(made, all...)
}

// Leave is to the end, so that the server has nobody to miss in its log.
func leave(session net.Conn) {
	_, _ = session.Write([]byte{terminate, 0, 0, 0, 4})
	_, _ = io.Copy(io.Discard, session)
	_ = session.Close()
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

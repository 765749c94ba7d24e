package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Bytes of a line of an answer.
const longestLine = 1 << 10

// server is a memcached, that of the same Pod unless it is plain, and how it lets this program in.
type server struct {
	address string
	tls     bool
	// users is memcached's own file of logins, USER:PASSWORD in each line; empty where it asks for none.
	users   string
	timeout time.Duration
}

func (s *server) flags(flags *flag.FlagSet) {
	flags.StringVar(&s.address, "memcached", "localhost:11211", "HOST:PORT of memcached")
	flags.DurationVar(&s.timeout, "timeout", 3*time.Second, "how long memcached may take to answer")
	flags.BoolVar(&s.tls, "tls", false, "whether memcached has TLS")
	flags.StringVar(&s.users, "users", "", "memcached's file of logins, if it asks for one")
}

// open returns a connection that memcached takes commands on. The timeout is for all that is done with it.
//
// On the Pod's own loopback there is nobody whose certificate is to be verified.
func (s *server) open() (net.Conn, error) {
	logins, err := s.logins()
	if err != nil {
		return nil, err
	}
	connection, err := net.DialTimeout("tcp", s.address, s.timeout)
	if err != nil {
		return nil, err
	}
	if s.tls {
		connection = tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
	}
	err = connection.SetDeadline(time.Now().Add(s.timeout))
	if err == nil {
		err = logIn(connection, logins)
	}
	if err != nil {
		connection.Close()
		return nil, err
	}
	return connection, nil
}

// logins are those of the file, in its order; none where memcached asks for none.
func (s *server) logins() ([]string, error) {
	if s.users == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.users)
	if err != nil {
		return nil, err
	}
	found := []string{}
	for line := range bytes.Lines(text) {
		if line := strings.TrimRight(string(line), "\n"); line != "" {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no login", s.users)
	}
	return found, nil
}

// logIn tries the logins in turn: while memcached has not read its file again, the newest is not valid yet.
func logIn(connection net.Conn, logins []string) error {
	if len(logins) == 0 {
		return nil
	}
	for _, login := range logins {
		user, password, _ := strings.Cut(login, ":")
		words := user + " " + password
		answer, err := set(connection, "login", 0, words)
		if err != nil {
			return err
		}
		if answer == "STORED" {
			return nil
		}
	}
	return errors.New("it does not accept a login of its own file")
}

// set returns what memcached answers to it: STORED, if it has taken the item, for so many seconds, or for ever with 0.
func set(connection net.Conn, key string, seconds int, value string) (string, error) {
	if _, err := fmt.Fprintf(connection, "set %s 0 %d %d\r\n%s\r\n", key, seconds, len(value), value); err != nil {
		return "", err
	}
	return readLine(connection)
}

// readLine reads one line of an answer, and nothing of what comes after it.
func readLine(connection net.Conn) (string, error) {
	line := make([]byte, 0, 128)
	one := make([]byte, 1)
	for len(line) < longestLine {
		if _, err := connection.Read(one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return strings.TrimRight(string(line), "\r"), nil
		}
		line = append(line, one[0])
	}
	return "", fmt.Errorf("it answered %.80q", line)
}

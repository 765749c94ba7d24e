package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// How often memcached is told again that its certificate has changed, on one connection: if it read the
// certificate and the key of two pairs, it takes no new connection until it has read them once more.
const attempts = 10

// reloader has memcached read files again that have changed: the logins on SIGHUP, the certificate on the command
// refresh_certs. A login that memcached has forgotten, or a certificate that it serves no more, ends no connection.
type reloader struct {
	server
	process, certificate, key string
	// What memcached has read, as far as this program knows; nothing at first.
	login, pair []byte
	// The last failure that the log has.
	failure string
}

func reload(arguments []string) error {
	flags := flag.NewFlagSet("memcached-exporter reload", flag.ContinueOnError)
	var r reloader
	r.flags(flags)
	flags.StringVar(&r.process, "process", "memcached", "the name of memcached's process")
	flags.StringVar(&r.certificate, "certificate", "", "the file with its certificate")
	flags.StringVar(&r.key, "key", "", "the file with the key of that")
	period := flags.Duration("period", 2*time.Second, "how often the files are compared")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not an option", flags.Arg(0))
	}
	if (r.certificate == "") != (r.key == "") || r.tls != (r.certificate != "") {
		return errors.New("give --tls, --certificate and --key, or none of them")
	}
	for {
		r.look()
		time.Sleep(*period)
	}
}

// look compares the files once. The logins come first: refresh_certs needs one that is valid.
func (r *reloader) look() {
	err := r.readLogins()
	if err == nil {
		err = r.readPair()
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.failure && text != "" {
		log.Printf("memcached at %s has not read its files: %v; it is tried again", r.address, err)
	}
	r.failure = text
}

func (r *reloader) readLogins() error {
	if r.users == "" {
		return nil
	}
	found, err := sum(r.users)
	if err != nil || bytes.Equal(found, r.login) {
		return err
	}
	// It would end by the signal if it came before memcached is ready for it.
	connection, err := net.DialTimeout("tcp", r.address, r.timeout)
	if err != nil {
		return err
	}
	connection.Close()
	if err := r.hangUp(); err != nil {
		return err
	}
	// memcached looks for the signal once a second.
	time.Sleep(1500 * time.Millisecond)
	if err := r.firstIsValid(); err != nil {
		return err
	}
	if r.login != nil {
		log.Printf("memcached at %s has read its logins again", r.address)
	}
	r.login = found
	return nil
}

// firstIsValid says whether memcached accepts the newest login of the file.
func (r *reloader) firstIsValid() error {
	logins, err := r.logins()
	if err != nil {
		return err
	}
	anyone := r.server
	anyone.users = ""
	connection, err := anyone.open()
	if err != nil {
		return err
	}
	defer connection.Close()
	return logIn(connection, logins[:1])
}

// hangUp sends SIGHUP to memcached, which is in the process namespace of the Pod.
func (r *reloader) hangUp() error {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	sent := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || string(bytes.TrimSpace(text)) != r.process {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		if err := syscall.Kill(number, syscall.SIGHUP); err != nil {
			return fmt.Errorf("no SIGHUP to process %d: %w", number, err)
		}
		sent++
	}
	if sent == 0 {
		return fmt.Errorf("there is no process %q", r.process)
	}
	return nil
}

func (r *reloader) readPair() error {
	if !r.tls {
		return nil
	}
	found, err := sum(r.certificate, r.key)
	if err != nil || bytes.Equal(found, r.pair) {
		return err
	}
	// With a certificate and a key of two pairs, memcached takes no connection any more.
	if _, err := tls.LoadX509KeyPair(r.certificate, r.key); err != nil {
		return err
	}
	connection, err := r.open()
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := refresh(connection, r.timeout); err != nil {
		return err
	}
	if r.pair != nil {
		log.Printf("memcached at %s has read its certificate again", r.address)
	}
	r.pair = found
	return nil
}

func refresh(connection net.Conn, timeout time.Duration) error {
	var said string
	for range attempts {
		if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(connection, "refresh_certs\r\n"); err != nil {
			return err
		}
		answer, err := readLine(connection)
		if err != nil {
			return err
		}
		if answer == "OK" {
			return nil
		}
		said = answer
		time.Sleep(time.Second)
	}
	return fmt.Errorf("it answered %.200q", said)
}

// sum stands for what is in these files.
func sum(files ...string) ([]byte, error) {
	hash := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(hash, "%d ", len(text))
		hash.Write(text)
	}
	return hash.Sum(nil), nil
}

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	locks "sync"
	"syscall"
	"time"
)

const (
	// What a connection's first eight bytes say, beside protocol 3: that it wants TLS or GSS encryption first, or
	// that another session's statement is to be canceled.
	wantsTLS, wantsGSS, cancels = 80877103, 80877104, 80877102
	// The first byte where TLS begins without asking for it, as with sslnegotiation=direct.
	handshake = 0x16

	// How long a connection has to say what it wants: a port scan says nothing.
	firstWord = 10 * time.Second
	// What a client sends before the server has answered: a startup message, or a TLS handshake.
	longestStart = 64 * 1024
	// How often the server is tried, and how long one try takes where nobody refuses it.
	between, oneTry = 200 * time.Millisecond, time.Second
	// How long it is said that somebody waits, after the last one has gone: the kubelet asks once a second.
	said = 3 * time.Second
	// The kubelet's times are whole seconds. Ready first, this orders them.
	quiet = 2 * time.Second
	// Together they keep well within the container's memory.
	mostConnections = 512
)

// Activator takes the connections to a server that is stopped. It passes them on, as they are, once the server takes
// them; that somebody waits, it says by being not ready.
type activator struct {
	server string
	most   time.Duration
	since  time.Time

	lock       locks.Mutex
	waiting    int
	last       time.Time
	asked      bool
	places     chan struct{}
	unfinished locks.WaitGroup

	trying locks.Mutex
	failed time.Time
}

// Activate runs until a signal ends it; then it takes no more connections, and ends with the last one. No connection
// waits longer than those seconds.
func activate(listen, server, ready string, seconds int) error {
	listener, err := net.Listen("tcp", ":"+listen)
	if err != nil {
		return err
	}
	page, err := net.Listen("tcp", ":"+ready)
	if err != nil {
		return err
	}
	a := &activator{
		server: server, most: time.Duration(seconds) * time.Second, since: time.Now(),
		places: make(chan struct{}, mostConnections),
	}
	pages := http.Server{Handler: a, ReadTimeout: most, WriteTimeout: most, MaxHeaderBytes: 4096}
	go func() { say("readiness is not served any more: %v", pages.Serve(page)) }()
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		<-ended.Done()
		stop() // a second signal ends it at once
		_ = listener.Close()
	}()
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			a.unfinished.Wait()
			return nil
		}
		if err != nil {
			// Out of files, say: those that are there go on.
			say("a connection cannot be taken: %v", err)
			time.Sleep(between)
			continue
		}
		select {
		case a.places <- struct{}{}:
			a.unfinished.Add(1)
			go func() {
				defer func() { <-a.places; a.unfinished.Done() }()
				defer client.Close()
				a.serve(client.(*net.TCPConn))
			}()
		default:
			_ = client.Close()
		}
	}
}

// ServeHTTP answers the kubelet: not ready means that somebody waits for the server.
func (a *activator) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	if waiting := a.isCalled(); waiting > 0 {
		http.Error(answer, fmt.Sprintf("%d connections wait for the server", waiting), http.StatusServiceUnavailable)
	}
}

// IsCalled is how many wait, or 1 where the last one has just gone. The first answer is 0, and is one for long enough
// to be distinguished from that of a container that starts.
func (a *activator) isCalled() int {
	a.lock.Lock()
	defer a.lock.Unlock()
	if !a.asked || time.Since(a.since) < quiet {
		a.asked = true
		return 0
	}
	if a.waiting == 0 && !a.last.IsZero() && time.Since(a.last) < said {
		return 1
	}
	return a.waiting
}

// Count notes that one more waits, or one less.
func (a *activator) count(more int) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.waiting += more
	a.last = time.Now()
}

func (a *activator) serve(client *net.TCPConn) {
	start, wakes, err := first(client)
	if err != nil {
		return
	}
	var server net.Conn
	if wakes {
		a.count(1)
		server, start, err = a.wait(client, start)
		a.count(-1)
	} else {
		server, err = a.try()
	}
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := server.Write(start); err == nil {
		join(client, server.(*net.TCPConn))
	}
}

// First reads what a client of PostgreSQL begins with, and whether that is a reason to start the server. Anything else
// is an error: who says nothing, or speaks another protocol, starts none.
func first(client net.Conn) (start []byte, wakes bool, err error) {
	if err := client.SetReadDeadline(time.Now().Add(firstWord)); err != nil {
		return nil, false, err
	}
	start = make([]byte, 8)
	if _, err := io.ReadFull(client, start); err != nil {
		return nil, false, err
	}
	if start[0] == handshake && start[1] == 3 { // TLS's major version, in each release
		return start, true, nil
	}
	length, code := binary.BigEndian.Uint32(start), binary.BigEndian.Uint32(start[4:])
	switch {
	case length < 8 || length > longest:
		return nil, false, noClient
	case code == cancels:
		return start, false, nil
	case code == wantsTLS || code == wantsGSS || code>>16 == protocol>>16:
		return start, true, nil
	}
	return nil, false, noClient
}

// Wait tries the server until it takes the connection; it returns that, and all that the client has sent meanwhile. A
// client that has gone is waited for no longer.
func (a *activator) wait(client net.Conn, start []byte) (net.Conn, []byte, error) {
	chunk := make([]byte, 4096)
	for until := time.Now().Add(a.most); time.Now().Before(until); {
		if server, err := a.try(); err == nil {
			return server, start, nil
		}
		if len(start) >= longestStart {
			time.Sleep(between)
			continue
		}
		if err := client.SetReadDeadline(time.Now().Add(between)); err != nil {
			return nil, nil, err
		}
		n, err := client.Read(chunk)
		start = append(start, chunk[:n]...)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil, err
		}
	}
	return nil, nil, errors.New("the server has not started in time")
}

var (
	noClient = errors.New("it does not speak PostgreSQL's protocol")
	notYet   = errors.New("the server did not take a connection just now")
)

// Try connects to the server, one at a time: however many wait, a server that is stopped, and the cluster's DNS, are
// asked a few times a second.
func (a *activator) try() (net.Conn, error) {
	a.trying.Lock()
	defer a.trying.Unlock()
	if time.Since(a.failed) < between {
		return nil, notYet
	}
	server, err := net.DialTimeout("tcp", a.server, oneTry)
	if err != nil {
		a.failed = time.Now()
	}
	return server, err
}

// Join passes on what each says until both have ended.
func join(client, server *net.TCPConn) {
	_ = client.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, server)
	_ = client.CloseWrite()
	// A server that has ended says nothing more, and needs nobody to listen to.
	_ = client.SetReadDeadline(time.Now().Add(between))
	<-done
}

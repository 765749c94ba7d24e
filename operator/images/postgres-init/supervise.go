package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	// How often it looks for a request. Nobody is refused meanwhile, so it need not be often.
	pause = 500 * time.Millisecond
	// How long a server runs at least before it is restarted for what it was started with: none restarts in a loop.
	restAtLeast = 5 * time.Minute
	// How long a server that is to end at once has for that, before it is killed.
	lastSeconds = 10 * time.Second
	// What a shell would say of a program that a signal ended.
	bySignal = 128
)

// Supervisor has the server as its child. All happens in one loop, so no child is waited for twice.
type supervisor struct {
	of      serving
	program string
	args    []string
	files   []uintptr

	server  int
	started time.Time
	// Postgresql.auto.conf as it was at that start, and the one before, while it is not known to start with this one.
	with, before []byte
	unproven     bool

	// The process that prepares a restart, 0 if there is none, and the parameters that it tries.
	helper int
	wanted []byte

	stopping bool // for a restart
	until    time.Time
	forced   bool
	ending   bool // for good
}

// Supervise runs the server and returns its status. It passes on the signals that end a container or have files read
// again, takes the exit status of every process that has lost its parent, and restarts the server when it is asked to.
func supervise(of serving, program string, args []string, files []uintptr) (int, error) {
	// The server is told of the end of the thread that has started it.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	_ = os.Remove(of.request) // one from before is of a server that is gone
	s := supervisor{of: of, program: program, args: args, files: files}
	if err := s.start(staleLock(of)...); err != nil {
		return 0, err
	}
	for ticks := time.NewTicker(pause); ; {
		select {
		case each := <-signals:
			if each == syscall.SIGCHLD {
				if status, ended, err := s.reap(); ended || err != nil {
					return status, err
				}
			} else {
				s.pass(each.(syscall.Signal))
			}
		case <-ticks.C:
			s.look()
		}
	}
}

// StaleLock has PostgreSQL disregard a lock file that the container before has left: what has that number here is one
// of its own ancestors' threads or a probe, no server. PostgreSQL knows the variable by pg_ctl, its parent's child.
func staleLock(of serving) []string {
	for _, path := range []string{
		filepath.Join(of.files.data, lockFile), filepath.Join(of.sockets, ".s.PGSQL."+of.port+".lock"),
	} {
		content, _ := os.ReadFile(path)
		line, _, _ := bytes.Cut(content, []byte("\n"))
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil && pid > 0 {
			return []string{"PG_GRANDPARENT_PID=" + strconv.Itoa(pid)}
		}
	}
	return nil
}

func (s *supervisor) start(env ...string) error {
	s.with, _ = os.ReadFile(filepath.Join(s.of.files.data, auto))
	pid, err := syscall.ForkExec(s.program, s.args, &syscall.ProcAttr{
		Env:   append(os.Environ(), env...),
		Files: s.files,
		// Without a supervisor nobody would stop it.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.program, err)
	}
	s.server, s.started = pid, time.Now()
	s.stopping, s.forced = false, false
	return nil
}

// Pass has the server end as a container's end has it: without waiting for clients (a smart shutdown would), whichever
// signal says so.
func (s *supervisor) pass(signal syscall.Signal) {
	if signal != syscall.SIGHUP {
		s.ending = true
		if signal == syscall.SIGTERM {
			signal = syscall.SIGINT
		}
	}
	_ = syscall.Kill(s.server, signal)
}

// Reap takes the status of each child that has ended; the server's own ends the supervisor, but for a restart.
func (s *supervisor) reap() (int, bool, error) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid == 0:
			return 0, false, nil
		case pid == s.helper:
			s.prepared(status)
		case pid == s.server:
			again, err := s.ended(status)
			if err != nil || !again {
				return statusOf(status), !again, err
			}
		}
	}
}

func statusOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return bySignal + int(status.Signal())
	}
	return status.ExitStatus()
}

// Prepared stops the server once its new parameters have passed.
func (s *supervisor) prepared(status syscall.WaitStatus) {
	s.helper = 0
	if s.ending || statusOf(status) != 0 {
		return // it has said why
	}
	say("the server is restarted for its parameters")
	s.stopping, s.until = true, time.Now().Add(time.Duration(s.of.seconds)*time.Second)
	_ = syscall.Kill(s.server, syscall.SIGINT)
}

// Ended says whether the server has been started again.
func (s *supervisor) ended(status syscall.WaitStatus) (bool, error) {
	code := statusOf(status)
	switch {
	case s.ending:
		return false, nil
	case s.stopping && (code == 0 || s.forced && !status.Signaled()):
		s.before, _ = os.ReadFile(filepath.Join(s.of.files.data, auto))
		s.unproven = s.put(s.wanted, nil)
		return true, s.start()
	case s.unproven:
		// It passed the trial, and does not start: for want of memory, say.
		s.unproven = false
		say("the server has not started with its parameters (status %d): it has those from before again", code)
		if !s.put(s.before, s.wanted) {
			return false, nil
		}
		return true, s.start()
	}
	return false, nil
}

// Put has the next start take these parameters, and leaves those that were refused where the operator reads them.
func (s *supervisor) put(parameters, denied []byte) bool {
	place := filepath.Join(s.of.files.data, refused)
	err := replace(filepath.Join(s.of.files.data, auto), parameters, 0o600)
	if err == nil && denied == nil {
		err = remove(place)
	} else if err == nil {
		err = replace(place, denied, 0o600)
	}
	if err != nil {
		say("the parameters stay as they are: %v", err)
	}
	return err == nil
}

// Look is what time brings: a request, a server that is ready, or one that does not end.
func (s *supervisor) look() {
	if s.unproven && isReady(s.of.files.data, s.server) {
		s.unproven, s.before = false, nil
	}
	switch late := s.stopping && time.Now().After(s.until); {
	case s.ending:
	case late && s.forced:
		say("the server does not end: it is killed, and the container starts again")
		_ = syscall.Kill(s.server, syscall.SIGKILL)
	case late:
		say("the server has not ended within %d seconds: it ends at once, and recovers at its start", s.of.seconds)
		s.forced, s.until = true, time.Now().Add(lastSeconds)
		_ = syscall.Kill(s.server, syscall.SIGQUIT)
	case !s.stopping && !s.unproven && s.helper == 0:
		s.take()
	}
}

// Take acts upon a request, once: it names the server that it ends, so whatever is left of it ends no other.
func (s *supervisor) take() {
	content, err := os.ReadFile(s.of.request)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	asked, complete, wrong := parse(content)
	if err == nil && !complete {
		return // it is being written
	}
	_ = os.Remove(s.of.request)
	found, started, _ := lockOf(s.of.files.data)
	switch {
	case err != nil || wrong != nil:
		say("a request to restart cannot be read: %v", errors.Join(err, wrong))
		return
	case found != s.server || asked.server != found || asked.started != started:
		return // of the server before
	case bytes.Equal(asked.parameters, s.with) && time.Since(s.started) < restAtLeast:
		say("the server was started with these parameters just now, and is not restarted for them again")
		return
	}
	if err := s.prepare(asked.parameters); err != nil {
		say("a restart cannot be prepared: %v", err)
	}
}

// Prepare has another process do what takes its time, and waits for programs of its own.
func (s *supervisor) prepare(parameters []byte) error {
	path := s.of.files.trial + ".conf"
	if err := os.WriteFile(path, parameters, 0o600); err != nil {
		return err
	}
	of := s.of
	pid, err := syscall.ForkExec("/proc/self/exe", []string{
		os.Args[0], "prepare", "--data=" + of.files.data, "--trial=" + of.files.trial, "--parameters=" + path,
		"--sockets=" + of.sockets, "--port=" + of.port, "--username=" + of.user,
		"--seconds=" + strconv.Itoa(of.seconds),
	}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err == nil {
		s.helper, s.wanted = pid, parameters
	}
	return err
}

func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "postgres-init: "+format+"\n", values...)
}

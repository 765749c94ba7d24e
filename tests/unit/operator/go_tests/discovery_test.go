package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// world is a directory whose names and clock are the test's.
type world struct {
	*directory
	t     *testing.T
	names map[string]string
	asked int
	clock time.Time
}

func newWorld(t *testing.T, list string) *world {
	w := &world{t: t, names: map[string]string{}, clock: time.Unix(1000, 0)}
	w.directory = &directory{file: filepath.Join(t.TempDir(), "list"), resolve: w.lookup}
	w.write(list)
	return w
}

func (w *world) lookup(_ context.Context, host string) ([]string, error) {
	w.asked++
	if address := w.names[host]; address != "" {
		return []string{address}, nil
	}
	return nil, errors.New("no such host")
}

func (w *world) write(list string) {
	if err := os.WriteFile(w.file, []byte(list), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wait(seconds float64) {
	w.clock = w.clock.Add(time.Duration(seconds * float64(time.Second)))
}

func (w *world) gives(want ...string) {
	w.t.Helper()
	w.look(w.clock)
	if got := w.given(); got != strings.Join(want, "\n")+"\n" {
		w.t.Fatalf("gave %q, not %q", got, want)
	}
}

const named = `[{"host": "a-0", "port": 1}]`

func TestANameThatIsNotResolvedJustNowKeepsItsAddress(t *testing.T) {
	w := newWorld(t, named)
	w.gives("1000", "a-0||1")
	w.names["a-0"] = "10.0.0.1"
	w.wait(10)
	w.gives("1010", "a-0|10.0.0.1|1")
	w.names["a-0"] = ""
	w.wait(10)
	w.gives("1010", "a-0|10.0.0.1|1")
	w.names["a-0"] = "10.0.0.2"
	w.wait(10)
	w.gives("1030", "a-0|10.0.0.2|1")
}

func TestTheVersionRisesThoughTheClockGoesBack(t *testing.T) {
	w := newWorld(t, `[{"host": "10.0.0.1", "port": 1}]`)
	w.gives("1000", "10.0.0.1|10.0.0.1|1")
	w.wait(-500)
	w.write(`[{"host": "10.0.0.1", "port": 2}]`)
	w.gives("1001", "10.0.0.1|10.0.0.1|2")
}

func TestNamesAreResolvedWithAChangeAndEveryTenSeconds(t *testing.T) {
	w := newWorld(t, named)
	for range 10 {
		w.gives("1000", "a-0||1")
		w.wait(0.9)
	}
	if w.asked != 1 {
		t.Fatalf("resolved %d times in 9 s", w.asked)
	}
	w.write(`[{"host": "a-0", "port": 2}]`)
	w.gives("1009", "a-0||2")
	w.wait(10)
	w.gives("1009", "a-0||2")
	if w.asked != 3 {
		t.Fatalf("resolved %d times", w.asked)
	}
}

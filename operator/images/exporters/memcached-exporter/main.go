// memcached-exporter serves what one memcached says of itself (`stats`) as Prometheus' text format.
//
// It names the metrics as Prometheus' own memcached_exporter does, so that its dashboards and rules fit. It asks
// once for each scrape, and keeps nothing: without an answer the page has `memcached_up 0` alone.
//
// `memcached-exporter discovery` answers where the caches are, as ElastiCache does (discovery.go).
//
// `memcached-exporter reload` is for a memcached with TLS or logins: it has it read its files again (reload.go).
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	contentType = "text/plain; version=0.0.4; charset=utf-8"
	// A page is asked for within Prometheus' scrape timeout, 10 s by default.
	requestSeconds = 15 * time.Second
)

type exporter struct {
	server
	// Whoever asks, memcached has one connection of this program at most.
	one sync.Mutex
	// Whether the last question had no answer: the log has the first of a row alone.
	failing bool
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatalf("memcached-exporter: %v", err)
	}
}

func run(arguments []string) error {
	if len(arguments) > 0 {
		switch arguments[0] {
		case "reload":
			return reload(arguments[1:])
		case "discovery":
			return discovery(arguments[1:])
		}
	}
	flags := flag.NewFlagSet("memcached-exporter", flag.ContinueOnError)
	listen := flags.String("listen", ":9150", "HOST:PORT where the metrics are served, at /metrics")
	exporter := &exporter{}
	exporter.flags(flags)
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not an option", flags.Arg(0))
	}
	routes := http.NewServeMux()
	routes.Handle("GET /metrics", exporter)
	server := &http.Server{
		Addr:              *listen,
		Handler:           routes,
		ReadHeaderTimeout: requestSeconds,
		ReadTimeout:       requestSeconds,
		WriteTimeout:      requestSeconds,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 14,
	}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (e *exporter) ServeHTTP(answer http.ResponseWriter, _ *http.Request) {
	stats, err := e.ask()
	var page bytes.Buffer
	write(&page, stats, err == nil)
	answer.Header().Set("Content-Type", contentType)
	_, _ = answer.Write(page.Bytes())
}

func (e *exporter) ask() (map[string]string, error) {
	e.one.Lock()
	defer e.one.Unlock()
	stats, err := e.server.ask()
	if (err != nil) != e.failing {
		if e.failing = err != nil; e.failing {
			log.Printf("memcached at %s gives no statistics: %v", e.address, err)
		} else {
			log.Printf("memcached at %s answers", e.address)
		}
	}
	return stats, err
}

// metrics-proxy runs an exporter that listens on the loopback alone, and serves its /metrics and nothing else.
//
// postgres_exporter has more: /probe connects to whatever server a request names, with the login that it names. So
// whoever may read its page could try logins on the server of the Pod, where a NetworkPolicy keeps them out.
//
// It starts the exporter again when that ends, and when a file that it reads at its start has changed: Kubernetes
// would count the Pod as unready for the first, and restarts no container for the second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// A page is asked for within Prometheus' scrape timeout, 10 s by default.
	scrapeSeconds  = 15 * time.Second
	restartSeconds = time.Second
	fileSeconds    = 5 * time.Second
	longestPage    = 1 << 26
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("metrics-proxy: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(arguments []string) error {
	flags := flag.NewFlagSet("metrics-proxy", flag.ContinueOnError)
	listen := flags.String("listen", ":9187", "HOST:PORT where the metrics are served, at /metrics")
	exporter := flags.String("exporter", "127.0.0.1:9188", "HOST:PORT where the exporter listens")
	file := flags.String("file", "", "a file with whose change the exporter is started again")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("give the exporter's program and arguments, after --")
	}
	ends, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	routes := http.NewServeMux()
	client := &http.Client{Timeout: scrapeSeconds, CheckRedirect: noRedirect}
	routes.HandleFunc("GET /metrics", func(answer http.ResponseWriter, _ *http.Request) {
		forward(answer, client, "http://"+*exporter+"/metrics")
	})
	server := &http.Server{
		Addr:              *listen,
		Handler:           routes,
		ReadHeaderTimeout: scrapeSeconds,
		ReadTimeout:       scrapeSeconds,
		WriteTimeout:      2 * scrapeSeconds,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 14,
	}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	kept := make(chan struct{})
	go func() {
		keep(ends, flags.Args(), *file)
		close(kept)
	}()
	select {
	case err := <-served:
		stop()
		<-kept
		return err
	case <-kept:
		return nil
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// forward answers what the exporter answers at this address. What the request asked besides is not passed on.
func forward(answer http.ResponseWriter, client *http.Client, address string) {
	found, err := client.Get(address)
	if err != nil {
		http.Error(answer, fmt.Sprintf("the exporter does not answer: %v", err), http.StatusBadGateway)
		return
	}
	defer found.Body.Close()
	if kind := found.Header.Get("Content-Type"); kind != "" {
		answer.Header().Set("Content-Type", kind)
	}
	answer.WriteHeader(found.StatusCode)
	_, _ = io.Copy(answer, io.LimitReader(found.Body, longestPage))
}

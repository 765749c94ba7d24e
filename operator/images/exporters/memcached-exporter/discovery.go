package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// ElastiCache's clients ask for the list by `config get cluster` from this version on, and by a key before. Some
	// ask the caches themselves, which answer the second alone.
	discoveryVersion = "1.4.14"
	clusterKey       = "AmazonElastiCache:cluster"

	// How often the file is read; how often the names are resolved though it is as it was, and each cache is given the
	// list again: it may have been restarted, or emptied.
	lookSeconds, keepSeconds = 2 * time.Second, 10 * time.Second
	// For the names to be resolved, and for an answer to be taken.
	resolveSeconds, answerSeconds = 2 * time.Second, 10 * time.Second
	// Clients keep a connection between two questions, which they ask once a minute.
	idleSeconds = 3 * time.Minute
	// A question is shorter than this.
	longestQuestion = 1024
	// Together they keep well within the container's memory.
	mostConnections = 2000
)

// cache is one server of the list, as the operator writes it.
type cache struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// directory has the answer at hand: a client waits neither for the disk nor for the cluster's DNS.
type directory struct {
	file    string
	resolve func(context.Context, string) ([]string, error)

	lock   sync.Mutex
	answer string // the version and the list, each with a newline; empty before there is one

	// Only `look` reads and writes what follows.
	list     []cache
	known    map[string]string // the address last known of each name
	resolved time.Time
	// It rises with each change: clients keep the list that has the highest.
	version int64
	failure string
}

func discovery(arguments []string) error {
	flags := flag.NewFlagSet("memcached-exporter discovery", flag.ContinueOnError)
	listen := flags.String("listen", ":11211", "HOST:PORT where the list is asked for")
	file := flags.String("servers", "", "the file with the list, as JSON")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not an option", flags.Arg(0))
	}
	if *file == "" {
		return errors.New("give --servers, the file with the list")
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d := &directory{file: *file, resolve: resolve}
	for d.look(time.Now()); d.given() == ""; d.look(time.Now()) {
		select {
		case <-ended.Done():
			return nil
		case <-time.After(lookSeconds):
		}
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ended, func() { _ = listener.Close() })
	go d.follow(ended)
	return d.serve(listener)
}

// serve takes connections until the listener is closed. It has nothing that whoever is connected would lose.
func (d *directory) serve(listener net.Listener) error {
	places := make(chan struct{}, mostConnections)
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// Out of files, say: those that are there go on.
			log.Printf("a connection cannot be taken: %v", err)
			time.Sleep(lookSeconds)
			continue
		}
		select {
		case places <- struct{}{}:
			go func() {
				defer func() { <-places }()
				defer client.Close()
				d.converse(client)
			}()
		default:
			_ = client.Close()
		}
	}
}

// converse answers one client until it goes, says nothing for long, or no longer speaks the text protocol.
func (d *directory) converse(client net.Conn) {
	lines := bufio.NewScanner(client)
	lines.Buffer(make([]byte, 0, longestQuestion), longestQuestion)
	for {
		if client.SetReadDeadline(time.Now().Add(idleSeconds)) != nil || !lines.Scan() {
			return
		}
		said := d.reply(strings.Fields(lines.Text()))
		if said == "" || client.SetWriteDeadline(time.Now().Add(answerSeconds)) != nil {
			return
		}
		if _, err := client.Write([]byte(said)); err != nil {
			return
		}
	}
}

// reply is empty where the client has said that it goes.
func (d *directory) reply(words []string) string {
	switch strings.Join(words, " ") {
	case "config get cluster":
		return found("CONFIG cluster", d.given())
	case "get " + clusterKey:
		return found("VALUE "+clusterKey, d.given())
	case "version":
		return "VERSION " + discoveryVersion + "\r\n"
	case "quit":
		return ""
	}
	return "ERROR\r\n"
}

func found(head, text string) string {
	return fmt.Sprintf("%s 0 %d\r\n%s\r\nEND\r\n", head, len(text), text)
}

func (d *directory) given() string {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.answer
}

// follow reads the list again and again, and has each cache hold it.
func (d *directory) follow(ended context.Context) {
	items := &items{}
	for {
		items.keep(d.given(), d.caches())
		select {
		case <-ended.Done():
			return
		case <-time.After(lookSeconds):
			d.look(time.Now())
		}
	}
}

// look reads the list once. What cannot be read changes nothing.
func (d *directory) look(now time.Time) {
	list, err := d.read()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.failure {
		log.Printf("the list in %s is as it was: %v", d.file, err)
	}
	d.failure = text
	same, age := reflect.DeepEqual(list, d.list), now.Sub(d.resolved)
	if err != nil || same && 0 <= age && age < keepSeconds {
		return
	}
	d.resolved = now
	known := d.addresses(list)
	if same && reflect.DeepEqual(known, d.known) {
		return
	}
	d.list, d.known = list, known
	// By the clock, for a program that starts knows of no earlier version.
	d.version = max(d.version+1, now.Unix())
	nodes := make([]string, len(list))
	for i, one := range list {
		nodes[i] = fmt.Sprintf("%s|%s|%d", one.Host, known[one.Host], one.Port)
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.answer = fmt.Sprintf("%d\n%s\n", d.version, strings.Join(nodes, " "))
}

func (d *directory) read() ([]cache, error) {
	content, err := os.ReadFile(d.file)
	if err != nil {
		return nil, err
	}
	var list []cache
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it is empty")
	}
	return list, nil
}

// caches are HOST:PORT of each in the list, by its address where that is known.
func (d *directory) caches() []string {
	found := make([]string, len(d.list))
	for i, one := range d.list {
		host := one.Host
		if address := d.known[host]; address != "" {
			host = address
		}
		found[i] = net.JoinHostPort(host, strconv.Itoa(one.Port))
	}
	return found
}

// addresses of the hosts: some clients connect to nothing else. A name that is not resolved just now keeps the
// address that it had, and one that never was has none.
func (d *directory) addresses(list []cache) map[string]string {
	ends, cancel := context.WithTimeout(context.Background(), resolveSeconds)
	defer cancel()
	var lock sync.Mutex
	var all sync.WaitGroup
	found := map[string]string{}
	for _, one := range list {
		host := one.Host
		if net.ParseIP(host) != nil {
			lock.Lock()
			found[host] = host
			lock.Unlock()
			continue
		}
		all.Add(1)
		go func() {
			defer all.Done()
			addresses, err := d.resolve(ends, host)
			address := d.known[host]
			if err == nil && len(addresses) > 0 {
				address = addresses[0]
			}
			lock.Lock()
			defer lock.Unlock()
			found[host] = address
		}()
	}
	all.Wait()
	return found
}

func resolve(ends context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ends, host)
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// How often the list is read to put it into the caches, and how often it is put there though it is as it was: a
	// cache may have been restarted, or emptied.
	lookSeconds, keepSeconds = 2 * time.Second, 10 * time.Second
	// For one cache to take it. A hundred caches are not all asked at once.
	itemSeconds = time.Second
	mostAtOnce  = 8
)

// keepItems has each cache of the list hold the list, under the key by which AWS's client for Java asks the caches for
// it: after its first question it no longer asks the endpoint that it was given.
func (d *directory) keepItems(ended context.Context) {
	var put string
	var at time.Time
	failing := false
	for {
		if text := d.answer(); text != put || time.Since(at) >= keepSeconds {
			put, at = text, time.Now()
			err := d.putItems(text)
			if err != nil && !failing {
				log.Printf("a cache does not take the list: %v; it is tried again", err)
			}
			failing = err != nil
		}
		select {
		case <-ended.Done():
			return
		case <-time.After(lookSeconds):
		}
	}
}

// putItems tries every cache, and returns one of the errors.
func (d *directory) putItems(text string) error {
	places := make(chan struct{}, mostAtOnce)
	var all sync.WaitGroup
	var lock sync.Mutex
	var failed error
	for _, address := range d.caches() {
		places <- struct{}{}
		all.Add(1)
		go func() {
			defer func() { <-places; all.Done() }()
			if err := putItem(address, text); err != nil {
				lock.Lock()
				defer lock.Unlock()
				if failed == nil {
					failed = err
				}
			}
		}()
	}
	all.Wait()
	return failed
}

// caches are HOST:PORT of each in the list, by its address where that is known.
func (d *directory) caches() []string {
	d.lock.Lock()
	defer d.lock.Unlock()
	found := make([]string, 0, len(d.list))
	for _, one := range d.list {
		host := one.Host
		if address := d.known[host]; address != "" {
			host = address
		}
		found = append(found, net.JoinHostPort(host, strconv.Itoa(one.Port)))
	}
	return found
}

func putItem(address, text string) error {
	connection, err := net.DialTimeout("tcp", address, itemSeconds)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(itemSeconds)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(connection, "set %s 0 0 %d\r\n%s\r\n", clusterKey, len(text), text); err != nil {
		return err
	}
	said, err := bufio.NewReader(connection).ReadString('\n')
	if err != nil {
		return err
	}
	if said != "STORED\r\n" {
		return fmt.Errorf("%s says %q", address, said)
	}
	return nil
}

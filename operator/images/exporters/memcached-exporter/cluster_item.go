package main

import (
	"fmt"
	"log"
	"sync"
	"time"
)

const (
	// For one cache to take the list. A hundred caches are not all asked at once.
	itemSeconds = time.Second
	mostAtOnce  = 8
	// Whole seconds. Where no list is asked for any more, no cache gives an old one.
	expirySeconds = 60
)

// items has each cache hold the list, under the key by which AWS's client for Java asks the caches for it: after its
// first question it no longer asks the endpoint that it was given.
type items struct {
	put     string
	at      time.Time
	failing bool
}

// keep puts the list into the caches, if it has changed or it is time again.
func (i *items) keep(text string, caches []string) {
	if text == i.put && time.Since(i.at) < keepSeconds {
		return
	}
	i.put, i.at = text, time.Now()
	err := putItems(text, caches)
	if err != nil && !i.failing {
		log.Printf("a cache does not take the list, and is given it again: %v", err)
	}
	i.failing = err != nil
}

// putItems tries every cache, and returns one of the errors.
func putItems(text string, caches []string) error {
	places := make(chan struct{}, mostAtOnce)
	var all sync.WaitGroup
	var lock sync.Mutex
	var failed error
	for _, address := range caches {
		places <- struct{}{}
		all.Add(1)
		go func() {
			defer func() { <-places; all.Done() }()
			if err := putItem(address, text); err != nil {
				lock.Lock()
				defer lock.Unlock()
				failed = err
			}
		}()
	}
	all.Wait()
	return failed
}

func putItem(address, text string) error {
	connection, err := (&server{address: address, timeout: itemSeconds}).open()
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := set(connection, clusterKey, expirySeconds, text)
	if err == nil && answer != "STORED" {
		err = fmt.Errorf("%s says %q", address, answer)
	}
	return err
}

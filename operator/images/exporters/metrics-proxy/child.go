package main

import (
	"bytes"
	"context"
	"log"
	"os"
	"os/exec"
	"time"
)

// keep runs the program until the context is done, again and again.
func keep(ends context.Context, words []string, file string) {
	for ends.Err() == nil {
		once(ends, words, file)
		select {
		case <-ends.Done():
		case <-time.After(restartSeconds):
		}
	}
}

// once runs it until it ends, the file has changed, or the context is done.
func once(ends context.Context, words []string, file string) {
	started := content(file)
	child := exec.Command(words[0], words[1:]...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		log.Printf("%s does not start: %v", words[0], err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	look := time.NewTicker(fileSeconds)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			log.Printf("%s ended (%v); it is started again", words[0], err)
			return
		case <-ends.Done():
			_ = child.Process.Kill()
			<-ended
			return
		case <-look.C:
			if now := content(file); len(now) > 0 && !bytes.Equal(now, started) {
				log.Printf("%s has changed: %s is started again", file, words[0])
				_ = child.Process.Kill()
				<-ended
				return
			}
		}
	}
}

// content of the file; nothing while it cannot be read.
func content(file string) []byte {
	if file == "" {
		return nil
	}
	found, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return found
}

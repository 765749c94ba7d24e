package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bytes: memcached's own answer is of 3 KiB.
const longestAnswer = 1 << 16

// ask returns what memcached answers to `stats`, by name. The timeout is for all of it.
func (s *server) ask() (map[string]string, error) {
	connection, err := s.open()
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "stats\r\n"); err != nil {
		return nil, err
	}
	return read(io.LimitReader(connection, longestAnswer))
}

func read(answer io.Reader) (map[string]string, error) {
	found := map[string]string{}
	lines := bufio.NewScanner(answer)
	for lines.Scan() {
		line := lines.Text()
		if line == "END" {
			return found, nil
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) != 3 || words[0] != "STAT" {
			return nil, fmt.Errorf("it answered %.80q", line)
		}
		found[words[1]] = words[2]
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("its answer has no end")
}

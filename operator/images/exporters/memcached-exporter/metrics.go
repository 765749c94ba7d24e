package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

const (
	counter = "counter"
	gauge   = "gauge"
)

// A metric without labels, and the line of `stats` that it is.
type metric struct {
	name, kind, stat, help string
}

var metrics = []metric{
	{"uptime_seconds", gauge, "uptime", "For how long memcached has run."},
	{"time_seconds", gauge, "time", "The time by memcached's clock, since 1970."},
	{"process_user_cpu_seconds_total", counter, "rusage_user", "Processor time of memcached itself."},
	{"process_system_cpu_seconds_total", counter, "rusage_system", "Processor time of the kernel for memcached."},
	{"current_connections", gauge, "curr_connections", "Open connections."},
	{"max_connections", gauge, "max_connections", "Open connections that memcached takes at most."},
	{"connections_total", counter, "total_connections", "Connections that were opened."},
	{"connections_rejected_total", counter, "rejected_connections", "Connections that were one too many."},
	{"connections_yielded_total", counter, "conn_yields", "Times that a connection had to let others go first."},
	{"connections_listener_disabled_total", counter, "listen_disabled_num", "Times that all connections were taken."},
	{"accepting_connections", gauge, "accepting_conns", "Whether memcached takes a further connection."},
	{"read_bytes_total", counter, "bytes_read", "Bytes that clients sent."},
	{"written_bytes_total", counter, "bytes_written", "Bytes that clients were sent."},
	{"limit_bytes", gauge, "limit_maxbytes", "Memory for items."},
	{"current_bytes", gauge, "bytes", "Memory that items take."},
	{"current_items", gauge, "curr_items", "Items that are stored."},
	{"items_total", counter, "total_items", "Items that were stored."},
	{"items_evicted_total", counter, "evictions", "Items that were dropped for others before they expired."},
	{"items_reclaimed_total", counter, "reclaimed", "Items that took the memory of an expired one."},
	{"item_too_large_total", counter, "store_too_large", "Items that were too large to be stored."},
	{"item_no_memory_total", counter, "store_no_memory", "Items that found no memory."},
	{"direct_reclaims_total", counter, "direct_reclaims", "Times that a request itself had to free memory."},
}

// A series of commands_total: what `plus` counts, without what `minus` counts.
type command struct {
	name, status string
	plus         string
	minus        []string
}

var commands = []command{
	{name: "get", status: "hit", plus: "get_hits"},
	{name: "get", status: "miss", plus: "get_misses"},
	// memcached counts each `cas` as a `set` too.
	{name: "set", status: "hit", plus: "cmd_set", minus: []string{"cas_hits", "cas_misses", "cas_badval"}},
	{name: "delete", status: "hit", plus: "delete_hits"},
	{name: "delete", status: "miss", plus: "delete_misses"},
	{name: "incr", status: "hit", plus: "incr_hits"},
	{name: "incr", status: "miss", plus: "incr_misses"},
	{name: "decr", status: "hit", plus: "decr_hits"},
	{name: "decr", status: "miss", plus: "decr_misses"},
	{name: "cas", status: "hit", plus: "cas_hits"},
	{name: "cas", status: "miss", plus: "cas_misses"},
	{name: "cas", status: "badval", plus: "cas_badval"},
	{name: "touch", status: "hit", plus: "touch_hits"},
	{name: "touch", status: "miss", plus: "touch_misses"},
	{name: "flush", status: "hit", plus: "cmd_flush"},
}

// write writes the page. A line of `stats` that is missing, or is no number, is a metric less.
func write(page io.Writer, stats map[string]string, up bool) {
	head(page, "up", gauge, "Whether memcached answers.")
	if !up {
		fmt.Fprintln(page, "memcached_up 0")
		return
	}
	fmt.Fprintln(page, "memcached_up 1")
	if version := stats["version"]; version != "" {
		head(page, "version", gauge, "memcached's version, as a label.")
		fmt.Fprintf(page, "memcached_version{version=\"%s\"} 1\n", escaped.Replace(version))
	}
	for _, each := range metrics {
		if value, known := number(stats[each.stat]); known {
			head(page, each.name, each.kind, each.help)
			fmt.Fprintf(page, "memcached_%s %s\n", each.name, text(value))
		}
	}
	head(page, "commands_total", counter, "Commands by what came of them.")
	for _, each := range commands {
		value, known := number(stats[each.plus])
		for _, stat := range each.minus {
			other, _ := number(stats[stat])
			value -= other
		}
		if known {
			fmt.Fprintf(page, "memcached_commands_total{command=%q,status=%q} %s\n", each.name, each.status, text(value))
		}
	}
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func head(page io.Writer, name, kind, help string) {
	fmt.Fprintf(page, "# HELP memcached_%s %s\n# TYPE memcached_%s %s\n", name, help, name, kind)
}

func number(stat string) (float64, bool) {
	value, err := strconv.ParseFloat(stat, 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

func text(value float64) string {
	return strconv.FormatFloat(value, 'f', -1, 64)
}

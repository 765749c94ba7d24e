module kindling.dev/memcached-exporter

go 1.24

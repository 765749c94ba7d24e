module kindling.dev/metrics-proxy

go 1.24

module kindling.dev/postgres-init

go 1.24

// Postgres-init is what the Pod of a Postgresql runs besides PostgreSQL's own programs. It is static, and
// runs in any image that has these: an init container copies it into a volume of the Pod.
//
//	postgres-init install   copies the program itself
//	postgres-init initdb    makes the data directory, and puts the parameters in place
//	postgres-init serve     runs the server, answers the kubelet's probes, and restarts the server when the operator asks
//	postgres-init prepare   what serve has done before a restart: tries the parameters, and has a checkpoint made
//
// In a Pod of its own, of its own image:
//
//	postgres-init activate  takes the connections to a server that is stopped, until that has started
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "postgres-init:", err)
		os.Exit(1)
	}
}

const commands = "install, initdb, serve, prepare, activate"

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("name one of " + commands)
	}
	flags := flag.NewFlagSet("postgres-init "+args[0], flag.ExitOnError)
	switch args[0] {
	case "install":
		target := flags.String("to", "", "the file that the program is copied to")
		return parsed(flags, args[1:], func() error { return install(*target) })
	case "initdb":
		var in files
		tried(flags, &in)
		flags.StringVar(&in.config, "config", "", "the directory with the parameters and the system identifier")
		user := flags.String("username", "", "the superuser")
		var password string
		secret(flags, &password)
		return parsed(flags, args[1:], func() error { return initdb(in, *user, password) })
	case "serve":
		var of serving
		within(flags, &of.sockets, &of.port, &of.user)
		tried(flags, &of.files)
		secret(flags, &of.password)
		flags.StringVar(&of.request, "request", "", "the file by which the operator asks for a restart")
		flags.IntVar(&of.seconds, "seconds", 60, "how long a server has to end")
		flags.StringVar(&of.ready, "ready", "", "the port of the pages that the kubelet asks for")
		flags.StringVar(&of.logs, logs, "", "the directory that the names of the log's files are in, for JSON")
		_ = flags.Parse(args[1:])
		if err := filled(flags); err != nil {
			return err
		}
		return serve(of, flags.Args())
	case "activate":
		listen := flags.String("port", "", "the port that clients connect to")
		server := flags.String("server", "", "the server's address, HOST:PORT")
		ready := flags.String("ready", "", "the port that the kubelet asks over HTTP whether nobody waits")
		seconds := flags.Int("seconds", 300, "how long a connection waits for the server")
		return parsed(flags, args[1:], func() error { return activate(*listen, *server, *ready, *seconds) })
	case "prepare":
		var of server
		var in files
		within(flags, &of.sockets, &of.port, &of.user)
		tried(flags, &in)
		parameters := flags.String("parameters", "", "the file with the parameters")
		seconds := flags.Int("seconds", 60, "how long a checkpoint may take")
		return parsed(flags, args[1:], func() error { return prepare(in, of, *parameters, *seconds) })
	}
	return fmt.Errorf("%q is none of %s", args[0], commands)
}

// The only flag that may be left out.
const logs = "logs"

func within(flags *flag.FlagSet, sockets, port, user *string) {
	flags.StringVar(sockets, "sockets", "", "the directory of the server's socket")
	flags.StringVar(port, "port", "", "the server's port")
	flags.StringVar(user, "username", "", "the superuser")
}

func secret(flags *flag.FlagSet, password *string) {
	flags.StringVar(password, "password-file", "", "the file with the superuser's password")
}

func tried(flags *flag.FlagSet, in *files) {
	flags.StringVar(&in.data, "data", "", "the data directory; the directory that it is in is the volume")
	flags.StringVar(&in.trial, "trial", "", "the directory that parameters are tried in")
}

// Parsed calls what is to be done once each flag has a value.
func parsed(flags *flag.FlagSet, args []string, do func() error) error {
	_ = flags.Parse(args)
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: only flags are understood", flags.Arg(0))
	}
	if err := filled(flags); err != nil {
		return err
	}
	return do()
}

// Filled names a flag that has no value.
func filled(flags *flag.FlagSet) error {
	var err error
	flags.VisitAll(func(each *flag.Flag) {
		if each.Value.String() == "" && each.Name != logs {
			err = fmt.Errorf("give --%s, %s", each.Name, each.Usage)
		}
	})
	return err
}

func install(target string) error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return replace(target, program, 0o555)
}

// Replace gives the file this content all at once: whenever it is killed, or the machine ends, the file is the
// one before or the new one.
func replace(path string, content []byte, mode os.FileMode) error {
	beside := path + ".new"
	_ = os.Remove(beside) // of a run that was killed
	err := write(beside, content, mode)
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
		return err
	}
	return sync(filepath.Dir(path))
}

func write(path string, content []byte, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

func sync(directory string) error {
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const usage = `usage: go run ./examples/tools/testbed/vm COMMAND
  test [-timeout D] [-run REGEXP] PACKAGE...  runs tests of packages in the guest
  run [-timeout D] FOLDER SHELL-COMMAND       runs a command, with FOLDER at /mnt
  build                                       only builds the image
`

const (
	exitUsage = 2
	exitSetup = 125
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	code, err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vm: %v\n", err)
	}
	os.Exit(code)
}

var errUsage = errors.New(strings.TrimSpace(usage))

func command(ctx context.Context, args []string) (code int, err error) {
	o, err := parse(args)
	if err != nil {
		return exitUsage, err
	}
	if os.Geteuid() != 0 {
		return exitSetup, errors.New("only root can build and boot the guest")
	}
	img, err := ensureImage(ctx, os.Stderr)
	if err != nil {
		return exitSetup, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the guest took more than %v", o.timeout))
	defer cancel()
	switch o.verb {
	case "run":
		return img.run(ctx, o.args[0], o.args[1], os.Stdout)
	case "test":
		return img.test(ctx, o.run, o.args, os.Stdout)
	default:
		return 0, nil
	}
}

type options struct {
	verb    string
	timeout time.Duration
	run     string
	args    []string
}

func parse(args []string) (o options, err error) {
	o = options{timeout: 10 * time.Minute, run: "^TestGuest"}
	if len(args) == 0 {
		return o, errUsage
	}
	o.verb, args = args[0], args[1:]
	for len(args) >= 2 && (args[0] == "-timeout" || args[0] == "-run") {
		if args[0] == "-run" {
			o.run = args[1]
		} else if o.timeout, err = time.ParseDuration(args[1]); err != nil || o.timeout <= 0 {
			return o, fmt.Errorf("-timeout: %q is not a positive duration", args[1])
		}
		args = args[2:]
	}
	o.args = args
	switch {
	case o.verb == "build" && len(args) == 0:
	case o.verb == "run" && len(args) == 2:
	case o.verb == "test" && len(args) > 0 && !strings.HasPrefix(args[0], "-"):
	default:
		return o, errUsage
	}
	return o, nil
}

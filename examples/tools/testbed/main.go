package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	exitUsage    = 2
	exitSetup    = 125
	exitNotFound = 127
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	report := &reporter{w: os.Stderr}
	switch {
	case len(args) == 2 && args[0] == watchdogArg:
		return runWatchdog(ctx, args[1], report)
	case len(args) > 2 && args[0] == measureArg:
		return runMeasured(args[1], args[2:])
	}
	opts, err := parseArgs(args)
	if err != nil {
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	// Without a handler, a closed stderr (| head) would end the process before the clean-up.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)

	endWithGoRun()
	if opts.all {
		ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
		defer stop()
		return runAll(ctx, opts, report)
	}
	return runCommand(ctx, opts, signals, report)
}

// runCommand runs a command with runtimes, or without them if the user is not root.
func runCommand(ctx context.Context, opts options, signals <-chan os.Signal, report *reporter) int {
	if os.Geteuid() != 0 {
		report.line("not root: the command runs without container runtimes")
		return runPlain(opts.argv, withoutTestbedVars(os.Environ()), signals, report)
	}
	code, err := runWithRuntimes(ctx, opts, signals, report)
	if err != nil {
		report.line("%v", err)
	}
	return code
}

const usage = `usage: go run ./examples/tools/testbed [-logs DIR] [-controlplane] -- COMMAND [ARGS...]
       go run ./examples/tools/testbed -all [-run REGEXP] [-timing] [-lanes N] [-logs DIR] [PACKAGES...]

Starts two containerd versions, an image registry and test images, runs the
command with their addresses in its environment, and stops everything.
  -logs DIR      write the runtimes' logs to DIR and keep them
  -controlplane  also start a Kubernetes control plane (examples/tools/controlplane)
  -all           test every module of the repository with the race detector:
                 packages that need no runtime at low priority, the others beside
                 them in lanes, each with runtimes of its own; or only PACKAGES
  -run REGEXP    run only the tests that match, as go test does
  -timing        print the wall and CPU time of each package and long test
  -lanes N       number of lanes (2)
`

type options struct {
	logs         string
	controlPlane bool
	all, timing  bool
	run          string
	lanes        int
	argv         []string // the command, or the packages of -all
}

func parseArgs(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("testbed", flag.ContinueOnError)
	flags.SetOutput(new(strings.Builder))
	flags.StringVar(&opts.logs, "logs", "", "")
	flags.BoolVar(&opts.controlPlane, "controlplane", false, "")
	flags.BoolVar(&opts.all, "all", false, "")
	flags.StringVar(&opts.run, "run", "", "")
	flags.BoolVar(&opts.timing, "timing", false, "")
	flags.IntVar(&opts.lanes, "lanes", 2, "")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.argv = flags.Args()
	switch {
	case opts.all && opts.lanes < 1:
		return opts, errors.New("-lanes: must be at least 1")
	case !opts.all && (len(opts.argv) == 0 || opts.argv[0] == ""):
		return opts, errors.New("no command")
	}
	return opts, nil
}

func runPlain(argv, environ []string, signals <-chan os.Signal, report *reporter) int {
	code, err := command{
		argv: argv, environ: environ, signals: signals, report: report,
		started: func(int) error { return nil },
	}.run()
	if err != nil {
		report.line("%v", err)
	}
	return code
}

func runWatchdog(ctx context.Context, id string, report *reporter) int {
	c, err := openCache()
	if err == nil {
		err = watch(ctx, c, id, os.Stdin, report)
	}
	if err != nil {
		report.line("watchdog: %v", err)
		return 1
	}
	return 0
}

// endWithGoRun requests SIGTERM for the death of a parent that is the go command, because go run
// does not forward the signal that ends it.
func endWithGoRun() {
	parent := os.Getppid()
	if p, err := readStat(parent); err == nil && p.Name == "go" {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0)
	}
}

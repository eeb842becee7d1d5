package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	exitUsage = 2
	exitSetup = 125
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == watchdogArg {
		os.Exit(runWatchdog(os.Args[2], os.Stdin, os.Stderr))
	}
	os.Exit(run(context.Background(), os.Args[1:]))
}

const usage = `usage: GOWORK=off go run -C examples/tools/controlplane . [FLAGS] [-- COMMAND [ARGS...]]
       GOWORK=off go run -C examples/tools/controlplane . -build NAME[,NAME...]

Builds missing programs, starts etcd, kube-apiserver, kube-controller-manager and
kube-scheduler on loopback, and stops them when COMMAND ends or, without a COMMAND,
on Ctrl-C.
  -controller-manager=false  start no kube-controller-manager: no service accounts
  -scheduler=false           start no kube-scheduler
  -node NAME                 write a kubeconfig for this node (default: the host's name)
  -logs DIR                  write the logs to DIR and keep them
  -exports                   print the environment of COMMAND instead of instructions
  -build NAMES               only build programs and print their paths: etcd,
                             kube-apiserver, kube-controller-manager,
                             kube-scheduler, kubectl, kubelet (the upstream one)
`

type options struct {
	controllerManager, scheduler bool
	exports                      bool
	node, logs                   string
	build                        []string
	argv                         []string
}

func parseArgs(args []string) (options, error) {
	var o options
	hostname, err := os.Hostname()
	if err != nil {
		return o, err
	}
	flags := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.controllerManager, "controller-manager", true, "")
	flags.BoolVar(&o.scheduler, "scheduler", true, "")
	flags.BoolVar(&o.exports, "exports", false, "")
	flags.StringVar(&o.node, "node", strings.ToLower(hostname), "")
	flags.StringVar(&o.logs, "logs", "", "")
	build := flags.String("build", "", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.argv = flags.Args(); *build != "" {
		o.build = strings.Split(*build, ",")
	}
	if o.logs != "" {
		o.logs, err = filepath.Abs(o.logs)
	}
	return o, err
}

func run(ctx context.Context, args []string) int {
	o, err := parseArgs(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n%s", err, usage)
		return exitUsage
	}
	endWithGoRun()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // so that a closed pipe (| head) does not prevent the clean-up
	setup, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	report := &reporter{w: os.Stderr}
	b, err := newBuilder(report)
	if err == nil && len(o.build) > 0 {
		err = printPrograms(setup, b, o.build)
	}
	if err != nil {
		report.line("%v", err)
		return exitSetup
	}
	if len(o.build) > 0 {
		return 0
	}
	code, err := runCluster(setup, o, b, signals, report)
	if err != nil {
		report.line("%v", err)
	}
	return code
}

func printPrograms(ctx context.Context, b *builder, names []string) error {
	for _, name := range names {
		path, err := b.program(ctx, name)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

// runCluster starts the cluster, runs the command or waits for a signal, and stops the cluster.
// The first signal cancels setup, which ends an unfinished start.
func runCluster(setup context.Context, o options, b *builder, signals <-chan os.Signal, report *reporter) (code int, err error) {
	c, err := newCluster(o, b, report)
	if err != nil {
		return exitSetup, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.start(setup); err != nil {
		return exitSetup, err
	}
	if len(o.argv) > 0 {
		return runCommand(o.argv, c.environ(), signals)
	}
	if o.exports {
		fmt.Println("export " + strings.Join(c.environ(), "\nexport "))
	} else {
		report.line("%s", c.instructions())
	}
	select {
	case <-signals:
		return 0, nil
	case err := <-c.died:
		return 1, err
	}
}

// runCommand runs the user's command and returns its exit code. It forwards only signals that the
// terminal does not send to the command as well.
func runCommand(argv, environ []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return exitSetup, err
	}
	_, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	terminal := err == nil
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if byTerminal := sig == unix.SIGINT || sig == unix.SIGQUIT; !terminal || !byTerminal {
				_ = cmd.Process.Signal(sig)
			}
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return exitSetup, err
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// endWithGoRun requests SIGTERM for the death of a parent that is the go command, because go run
// does not forward the signal that ends it.
func endWithGoRun() {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", os.Getppid()))
	if err == nil && strings.TrimSpace(string(name)) == "go" {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
	}
}

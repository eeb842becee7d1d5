package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const exitUsage = 2

type options struct {
	kubelet, upstream string
	alone             bool
	selection
	procs          int
	runtime        string
	timeout        time.Duration
	results, suite string
}

// selection selects specs.
type selection struct {
	focus, skip, labels string
	serial              bool
}

// filter returns Ginkgo's label filter.
func (s selection) filter() string {
	labels := s.labels
	switch {
	case labels != "":
	case s.focus != "":
		labels = "!Flaky"
	default:
		labels = "NodeConformance && !Slow && !Flaky"
	}
	if s.serial {
		return "(" + labels + ") && Serial"
	}
	return "(" + labels + ") && !Serial"
}

func main() {
	if code, ok := standIn(os.Args); ok {
		os.Exit(code)
	}
	o, err := parseArgs(os.Args[1:])
	if err != nil {
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodesuite:", err)
		code = 1
	}
	os.Exit(code)
}

func parseArgs(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("nodesuite", flag.ContinueOnError)
	flags.StringVar(&o.kubelet, "kubelet", "", "the kubelet under test; default: build examples/kubelet")
	flags.StringVar(&o.upstream, "upstream", "", "upstream's kubelet, or the report of an earlier run (*.json); default: build it")
	flags.BoolVar(&o.alone, "alone", false, "run only the kubelet under test")
	flags.StringVar(&o.focus, "focus", "", "run the specs whose name matches this regular expression")
	flags.StringVar(&o.skip, "skip", "", "omit the specs whose name matches this regular expression")
	flags.StringVar(&o.labels, "labels", "", "Ginkgo's label filter")
	flags.BoolVar(&o.serial, "serial", false, "run the serial specs instead of the parallel ones")
	flags.IntVar(&o.procs, "procs", 4, "number of parallel processes")
	flags.StringVar(&o.runtime, "runtime", "v2", "v1 (containerd 1.6) or v2 (containerd 2.2)")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Hour, "limit per kubelet")
	flags.StringVar(&o.results, "results", "", "keep reports and logs in this folder")
	flags.StringVar(&o.suite, "suite", "", "a suite that is already built")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, usageError(flags, "unexpected argument: "+flags.Arg(0))
	case o.alone && o.upstream != "":
		return o, usageError(flags, "-alone excludes -upstream")
	case o.procs < 1:
		return o, usageError(flags, "-procs: must be at least 1")
	case o.runtime != "v1" && o.runtime != "v2":
		return o, usageError(flags, "-runtime: must be v1 or v2")
	}
	for _, path := range []*string{&o.kubelet, &o.upstream, &o.results, &o.suite} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return o, err
		}
	}
	return o, nil
}

func usageError(flags *flag.FlagSet, message string) error {
	fmt.Fprintln(flags.Output(), "nodesuite: "+message)
	flags.Usage()
	return errors.New(message)
}

// run runs the suite and prints the table. It returns the exit code.
func run(ctx context.Context, o options) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("only root can run a kubelet")
	}
	endpoint := os.Getenv(map[string]string{"v1": "PODWRIGHT_CRI_V1", "v2": "PODWRIGHT_CRI_V2"}[o.runtime])
	if endpoint == "" {
		return 0, errors.New("no container runtime; start with: go run ./examples/tools/testbed -- go run ./examples/tools/nodesuite")
	}
	dir, err := os.MkdirTemp("", scratchPrefix)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if o.results == "" {
		o.results = filepath.Join(dir, "results")
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return 0, err
	}
	b, err := newBuilder()
	if err != nil {
		return 0, err
	}
	p, err := b.programs(ctx, o)
	if err != nil {
		return 0, err
	}
	images, err := makeImages(ctx, p)
	if err != nil {
		return 0, fmt.Errorf("images: %w", err)
	}
	logf("push and pull %d images", len(images))
	if err := deliver(ctx, images, endpoint); err != nil {
		return 0, err
	}
	s := suite{options: o, programs: p, endpoint: endpoint, dir: dir}
	return compare(ctx, s)
}

// compare runs the suite with each kubelet and prints the table.
func compare(ctx context.Context, s suite) (int, error) {
	ours, err := s.run(ctx, "ours", s.programs.kubelet)
	if err != nil {
		return 0, err
	}
	var upstream *report
	switch {
	case s.alone:
	case isReport(s.upstream):
		if upstream, err = readReport(s.upstream); err != nil {
			return 0, err
		}
		upstream.keep(ours)
	default:
		if upstream, err = s.run(ctx, "upstream", s.programs.upstream); err != nil {
			return 0, err
		}
	}
	t := newTable(ours, upstream)
	if err := os.WriteFile(filepath.Join(s.results, "table.txt"), []byte(t.text(true)), 0o644); err != nil {
		return 0, err
	}
	fmt.Print(t.text(false))
	if t.worse() {
		return 1, nil
	}
	return 0, nil
}

func isReport(path string) bool { return strings.HasSuffix(path, ".json") }

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "nodesuite: "+format+"\n", args...)
}

// runQuiet runs cmd. The error includes the end of its output.
func runQuiet(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(out))
}

func lastLines(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
	"github.com/podwright/podwright/examples/tools/testbed/internal/results"
)

// testTimeout is the -timeout of each test program.
const testTimeout = "30m"

type suite struct {
	opts       options
	report     *reporter
	log        *results.Log
	packages   packages
	outside    string // folder of the control plane's module, which is in no workspace
	dir        string // folder of the built programs and of the measurements
	lock       *os.File
	firstError firstError
}

// firstError keeps the first error that is not a failed test.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (b *firstError) set(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
}

// runAll tests every module of the repository. One go test at low priority tests the packages that
// need no runtime. As root, the other packages run at the same time in lanes, each with its own
// runtimes. Without root their tests skip.
func runAll(ctx context.Context, opts options, report *reporter) int {
	begin := time.Now()
	s := &suite{opts: opts, report: report}
	if err := s.prepare(ctx); err != nil {
		report.line("%v", err)
		return exitSetup
	}
	defer s.lock.Close()
	defer os.RemoveAll(s.dir)
	s.log = results.New(os.Stdout, s.repeat)
	if os.Geteuid() == 0 {
		s.testWithRuntimes(ctx)
	} else {
		report.line("not root: tests that need a container runtime skip")
		s.testUnits(ctx, nil, append(s.packages.units, s.packages.runtime...), s.packages.controlPlane)
	}
	if err := context.Cause(ctx); err != nil {
		s.firstError.set(err)
	}
	if opts.timing {
		if err := s.table(time.Since(begin)); err != nil {
			report.line("%v", err)
		}
	}
	s.log.Summary()
	switch {
	case s.firstError.err != nil:
		report.line("%v", s.firstError.err)
		return exitSetup
	case s.log.Failed():
		return 1
	}
	return 0
}

func (s *suite) prepare(ctx context.Context) error {
	var err error
	if s.packages, err = splitPackages(ctx, s.opts.argv...); err != nil {
		return err
	}
	if s.outside, err = controlPlaneDir(ctx); err != nil {
		return err
	}
	if os.Getenv(env.Turn) == "" { // all processes of the run use the same value
		if err := os.Setenv(env.Turn, strconv.FormatInt(time.Now().Unix()/3600, 10)); err != nil {
			return err
		}
	}
	s.report.line("%d packages need no runtime, %d need one, %d need a control plane as well; %s=%s",
		len(s.packages.units), len(s.packages.runtime), len(s.packages.controlPlane), env.Turn, os.Getenv(env.Turn))
	if os.Geteuid() == 0 { // unit tests use some of the installed programs, too
		c, err := openCache()
		if err != nil {
			return err
		}
		if _, err := (installer{cache: c, report: s.report}).ensure(ctx); err != nil {
			return err
		}
	}
	s.dir, s.lock, err = newTestDir()
	return err
}

// testWithRuntimes builds the programs of the lanes, then runs lanes and unit tests in parallel.
func (s *suite) testWithRuntimes(ctx context.Context) {
	jobs, err := s.build(ctx)
	if err != nil {
		s.firstError.set(err)
		return
	}
	var all sync.WaitGroup
	all.Go(func() { s.testUnits(ctx, []string{env.RequireCRI + "=1"}, s.packages.units) })
	all.Go(func() { s.runLanes(ctx, jobs) })
	all.Wait()
}

// testUnits tests packages of the workspace, and the module outside of it, by go test.
func (s *suite) testUnits(ctx context.Context, environ []string, sets ...[]string) {
	args := []string{"test", "-json", "-race", "-timeout=" + testTimeout}
	if s.opts.run != "" {
		args = append(args, "-run="+s.opts.run)
	}
	if s.opts.timing {
		self, err := os.Executable()
		if err != nil {
			s.firstError.set(err)
			return
		}
		args = append(args, "-exec="+self+" "+measureArg+" "+s.measurements())
	}
	for _, set := range sets {
		if len(set) > 0 { // without packages go test would test the folder
			s.goTest(ctx, environ, append(slices.Clone(args), set...))
		}
	}
	if len(s.opts.argv) > 0 {
		return
	}
	s.goTest(ctx, append(environ, "GOWORK=off"), append([]string{args[0], "-C", s.outside}, append(args[1:], ".")...))
}

func (s *suite) goTest(ctx context.Context, environ, args []string) {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	cmd.Env = append(withoutTestbedVars(os.Environ()), environ...)
	if _, err := s.runTests(cmd, "", nil); err != nil {
		s.firstError.set(err)
	}
}

// runTests runs a command that prints test events. It returns no error for failed tests.
func (s *suite) runTests(cmd *exec.Cmd, label string, started func(pid int) error) (*os.ProcessState, error) {
	events := s.log.Reader(label)
	defer events.Close()
	cmd.Stdout, cmd.Stderr = events, os.Stderr
	err := runGroup(cmd, started)
	if exited(err) {
		err = nil
	}
	return cmd.ProcessState, err
}

// repeat returns the command that runs only this test or package.
func (s *suite) repeat(pkg, test string) string {
	run := ""
	if test != "" {
		parts := strings.Split(test, "/")
		for i, part := range parts {
			parts[i] = "^" + part + "$"
		}
		run = " -run '" + strings.Join(parts, "/") + "'"
	}
	command := "go test -race" + run + " ./" + strings.TrimPrefix(strings.TrimPrefix(pkg, modulePath), "/")
	turn := env.Turn + "=" + os.Getenv(env.Turn) + " "
	switch {
	case s.packages.needsControlPlane(pkg):
		return turn + "go run ./examples/tools/testbed -controlplane -- " + command
	case s.packages.needsRuntime(pkg):
		return turn + "go run ./examples/tools/testbed -- " + command
	case pkg == modulePath+"/examples/tools/controlplane":
		return "GOWORK=off go test -C examples/tools/controlplane -race" + run + " ."
	}
	return command
}

func (s *suite) root() string { return strings.TrimSuffix(s.outside, "/examples/tools/controlplane") }

func (s *suite) measurements() string { return filepath.Join(s.dir, "measurements") }

func (s *suite) table(wall time.Duration) error {
	if err := s.readMeasurements(); err != nil {
		return err
	}
	fmt.Printf("\nTime of the run: %.0f s on %d processors, CPU time of all processes that it started %.0f s\n", wall.Seconds(), runtime.NumCPU(), childTime().Seconds())
	return s.log.Table(os.Stdout)
}

// childTime returns the CPU time of all child processes that were waited for.
func childTime() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

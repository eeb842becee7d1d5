package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/testbed/internal/env"
)

// A package needs a runtime when its tests import one of these, with all that
// they import: nothing else reads where the runtimes are, which a test holds.
const (
	tbPackage      = "github.com/podwright/podwright/examples/testbed/tb"
	testcriPackage = "github.com/podwright/podwright/internal/testcri"
)

// runAll tests every module of the workspace. What needs no runtime comes first
// and several packages at a time; what needs one follows in a testbed, one by one,
// since the packages share the runtimes. Of the first, too, a test that looks for a
// runtime fails.
func runAll(ctx context.Context, opts options, signals <-chan os.Signal, report *reporter) int {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	without, with, err := splitPackages(ctx)
	if err != nil {
		report.line("%v", err)
		return exitSetup
	}
	test := append([]string{"go", "test", "-race", "-timeout=45m"}, opts.argv...)
	report.line("testing %d packages that need no runtime, then %d that do", len(without), len(with))

	environ := withoutOurs(os.Environ())
	if os.Geteuid() == 0 {
		environ = append(environ, env.RequireCRI+"=1")
	}
	first := 0
	if len(without) > 0 { // without packages go test takes the folder it is in
		first = runPlain(slices.Concat(test, without), environ, signals, report)
	}
	if ctx.Err() != nil || len(with) == 0 {
		return first
	}
	opts.argv = slices.Concat(test, []string{"-p=1"}, with)
	return max(first, runCommand(context.WithoutCancel(ctx), opts, signals, report))
}

// splitPackages returns the packages of the workspace without those whose tests
// need a runtime, and these.
func splitPackages(ctx context.Context) (without, with []string, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-e", "-test", "-f", `{{.ImportPath}}{{"\t"}}{{join .Deps "\t"}}`, "work")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		// What is built for the tests of x is listed as "y [x.test]", and those as x.test.
		names := strings.Split(strings.TrimSpace(line), "\t")
		for i, name := range names[1:] {
			names[i+1], _, _ = strings.Cut(name, " ")
		}
		switch pkg, tests := strings.CutSuffix(names[0], ".test"); {
		case strings.Contains(pkg, " "):
		case !tests:
			without = append(without, pkg)
		case slices.Contains(names, tbPackage) || slices.Contains(names, testcriPackage):
			with = append(with, pkg)
		}
	}
	without = slices.DeleteFunc(without, func(pkg string) bool { return slices.Contains(with, pkg) })
	return without, with, nil
}

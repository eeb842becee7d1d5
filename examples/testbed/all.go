package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/testbed/internal/env"
)

// A package needs a runtime when its tests import one of these, with all that
// they import: nothing else reads where the runtimes are, which a test holds.
const (
	tbPackage      = "github.com/podwright/podwright/examples/testbed/tb"
	testcriPackage = "github.com/podwright/podwright/internal/testcri"
	// What imports this one needs a control plane besides.
	controlPlanePackage = tbPackage + "/controlplane"
)

// packages are those of the workspace, by what their tests need.
type packages struct {
	nothing, runtime, controlPlane []string
}

// runAll tests every module of the workspace, and that of the control plane, which
// is outside of it. What needs no runtime comes first and several packages at a time;
// what needs one follows in a testbed, one by one, since the packages share the
// runtimes, and then what needs a control plane, too. As root, what all of them need is
// installed before, and a test of the first that looks for a runtime fails. Of the others
// some tests are run once more if they alone fail (see again). What failed is said again in the end.
func runAll(ctx context.Context, opts options, signals <-chan os.Signal, report *reporter) int {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	defer stop()
	pkgs, err := splitPackages(ctx)
	if err != nil {
		report.line("%v", err)
		return exitSetup
	}
	outside, err := controlPlaneDir(ctx)
	if err != nil {
		report.line("%v", err)
		return exitSetup
	}
	flags := append([]string{"-race", "-timeout=45m"}, opts.argv...)
	report.line("testing %d packages that need no runtime, then %d that do, then %d that need a control plane",
		len(pkgs.nothing)+1, len(pkgs.runtime), len(pkgs.controlPlane))

	// Who takes turns with whom stays so, also for what is run once more.
	turn := cmp.Or(os.Getenv(env.Turn), fmt.Sprint(time.Now().Unix()/3600))
	if err := os.Setenv(env.Turn, turn); err != nil {
		report.line("%v", err)
		return exitSetup
	}
	report.line("%s=%s", env.Turn, turn)

	environ := withoutOurs(os.Environ())
	if os.Geteuid() == 0 {
		// Also tests without a runtime need a browser, iptables and a bus.
		if err := install(ctx, report); err != nil {
			report.line("%v", err)
			return exitSetup
		}
		environ = append(environ, env.RequireCRI+"=1")
	}
	report.digest = &digest{out: os.Stdout}
	defer report.digest.print()
	worst := 0
	do := func(run func() int) {
		if ctx.Err() == nil {
			worst = max(worst, run())
		}
	}
	test := func(controlPlane bool, args ...string) int {
		o := opts
		o.argv, o.controlPlane = slices.Concat([]string{"go", "test"}, flags, []string{"-p=1"}, args), controlPlane
		return runCommand(context.WithoutCancel(ctx), o, signals, report)
	}
	inTestbed := func(pkgs []string, controlPlane bool) {
		if len(pkgs) == 0 { // without packages go test takes the folder it is in
			return
		}
		do(func() int {
			report.digest.take() // of those before
			code := test(controlPlane, pkgs...)
			runs, ok := report.digest.take()
			if code != 1 || !ok || ctx.Err() != nil {
				return code
			}
			code = 0
			for _, run := range runs {
				report.line("once more, alone: %s", strings.Join(run, " "))
				code = max(code, test(controlPlane, run...))
			}
			return code
		})
	}
	if len(pkgs.nothing) > 0 {
		do(func() int {
			return runPlain(slices.Concat([]string{"go", "test"}, flags, pkgs.nothing), environ, signals, report)
		})
	}
	do(func() int {
		argv := slices.Concat([]string{"go", "test", "-C", outside}, flags, []string{"."})
		return runPlain(argv, append(environ, "GOWORK=off"), signals, report)
	})
	inTestbed(pkgs.runtime, false)
	inTestbed(pkgs.controlPlane, true)
	return worst
}

func install(ctx context.Context, report *reporter) error {
	c, err := openCache()
	if err != nil {
		return err
	}
	_, err = installer{cache: c, report: report}.ensure(ctx)
	return err
}

// splitPackages returns the packages of the workspace, each of them once.
func splitPackages(ctx context.Context) (packages, error) {
	var pkgs packages
	list := exec.CommandContext(ctx, "go", "list", "-e", "-test", "-f", `{{.ImportPath}}{{"\t"}}{{join .Deps "\t"}}`, "work")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return packages{}, fmt.Errorf("go list: %w", err)
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
			pkgs.nothing = append(pkgs.nothing, pkg)
		case slices.Contains(names, controlPlanePackage):
			pkgs.controlPlane = append(pkgs.controlPlane, pkg)
		case slices.Contains(names, tbPackage) || slices.Contains(names, testcriPackage):
			pkgs.runtime = append(pkgs.runtime, pkg)
		}
	}
	pkgs.nothing = slices.DeleteFunc(pkgs.nothing, func(pkg string) bool {
		return slices.Contains(pkgs.runtime, pkg) || slices.Contains(pkgs.controlPlane, pkg)
	})
	return pkgs, nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A package needs a runtime if its tests import one of these, directly or not. Only these packages
// read the addresses of the runtimes; a test checks this.
const (
	modulePath     = "github.com/podwright/podwright"
	tbPackage      = modulePath + "/examples/tools/testbed/tb"
	testcriPackage = modulePath + "/internal/testkit/testcri"
	// controlPlanePackage is also imported by tests that need a control plane.
	controlPlanePackage = tbPackage + "/controlplane"
)

// packages are the packages of the workspace, by the needs of their tests.
type packages struct {
	units, runtime, controlPlane []string
}

func (p packages) needsRuntime(pkg string) bool      { return slices.Contains(p.runtime, pkg) }
func (p packages) needsControlPlane(pkg string) bool { return slices.Contains(p.controlPlane, pkg) }

// splitPackages returns each package that matches the patterns once. Without patterns it returns
// the packages of the workspace.
func splitPackages(ctx context.Context, patterns ...string) (packages, error) {
	if len(patterns) == 0 {
		patterns = []string{"work"}
	}
	var pkgs packages
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-test", "-f", `{{.ImportPath}}{{"\t"}}{{join .Deps "\t"}}`}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return packages{}, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		// go list prints a package built for the tests of x as "y [x.test]", and the test program
		// as x.test.
		names := strings.Split(strings.TrimSpace(line), "\t")
		for i, name := range names[1:] {
			names[i+1], _, _ = strings.Cut(name, " ")
		}
		switch pkg, tests := strings.CutSuffix(names[0], ".test"); {
		case strings.Contains(pkg, " "):
		case !tests:
			pkgs.units = append(pkgs.units, pkg)
		case slices.Contains(names, controlPlanePackage):
			pkgs.controlPlane = append(pkgs.controlPlane, pkg)
		case slices.Contains(names, tbPackage) || slices.Contains(names, testcriPackage):
			pkgs.runtime = append(pkgs.runtime, pkg)
		}
	}
	pkgs.units = slices.DeleteFunc(pkgs.units, func(pkg string) bool { return pkgs.needsRuntime(pkg) || pkgs.needsControlPlane(pkg) })
	return pkgs, nil
}

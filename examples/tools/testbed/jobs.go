package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// job is one execution of a test program in a lane.
type job struct {
	pkg, dir     string
	program      string
	test         string // the only test that runs; "" runs all
	controlPlane bool
}

// separatePackages are packages whose tests are separate jobs, because each test takes long and
// they share no state.
var separatePackages = []string{modulePath + "/examples/kubelet/e2e", modulePath + "/examples/kubelet/e2e/cluster"}

// build builds the test programs of the packages that need a runtime, and the kubelets that
// several of them start. It returns the jobs in their start order: jobs with a control plane last.
func (s *suite) build(ctx context.Context) ([]job, error) {
	var jobs []job
	err := s.report.step("build the tests that need a runtime", func() error {
		if err := s.buildKubelets(ctx); err != nil {
			return err
		}
		for _, pkg := range slices.Concat(s.packages.runtime, s.packages.controlPlane) {
			j := job{pkg: pkg, controlPlane: s.packages.needsControlPlane(pkg), program: filepath.Join(s.dir, fmt.Sprintf("%d.test", len(jobs)))}
			j.dir = filepath.Join(s.root(), strings.TrimPrefix(pkg, modulePath))
			if err := runQuiet(exec.CommandContext(ctx, "go", "test", "-race", "-c", "-o", j.program, pkg)); err != nil {
				return err
			}
			of, err := s.split(ctx, j)
			if err != nil {
				return err
			}
			jobs = append(jobs, of...)
		}
		return nil
	})
	return jobs, err
}

// buildKubelets builds examples/kubelet with and without the race detector.
func (s *suite) buildKubelets(ctx context.Context) error {
	for _, race := range []bool{false, true} {
		program := filepath.Join(s.dir, tb.KubeletName(race))
		cmd := exec.CommandContext(ctx, "go", "build", fmt.Sprintf("-race=%t", race), "-o", program, modulePath+"/examples/kubelet")
		if err := runQuiet(cmd); err != nil {
			return err
		}
	}
	return os.Setenv(env.Programs, s.dir)
}

// split returns one job per test for the packages in separatePackages, and j for others.
func (s *suite) split(ctx context.Context, j job) ([]job, error) {
	if !slices.Contains(separatePackages, j.pkg) {
		return []job{j}, nil
	}
	pattern, _, _ := strings.Cut(s.opts.run, "/")
	list := exec.CommandContext(ctx, j.program, "-test.list="+cmp.Or(pattern, "."))
	list.Dir = j.dir
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: list its tests: %w", j.pkg, err)
	}
	var jobs []job
	for _, name := range strings.Fields(string(out)) {
		if strings.HasPrefix(name, "Test") {
			one := j
			one.test = name
			jobs = append(jobs, one)
		}
	}
	return jobs, nil
}

// command returns the command of a job. It prints test events.
func (s *suite) command(ctx context.Context, j job) *exec.Cmd {
	args := []string{"tool", "test2json", "-t", "-p", j.pkg, j.program, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + testTimeout}
	run := s.opts.run
	if j.test != "" {
		_, below, _ := strings.Cut(run, "/")
		run = strings.TrimSuffix("^"+j.test+"$/"+below, "/")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-test.run="+run)...)
	cmd.Dir = j.dir
	return cmd
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemPath is the search path of the kubelet, as in a systemd service.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseConfig is the kubelet configuration that the suite completes. It differs from upstream's
// default for this suite (jenkins/default-kubelet-config.yaml) in the cgroup settings, and in the
// thresholds of disks, so that a nearly full disk neither removes images nor evicts pods.
const baseConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /
failCgroupV1: false
failSwapOn: false
evictionPressureTransitionPeriod: 30s
evictionHard:
  memory.available: 250Mi
  nodefs.available: 1Mi
  nodefs.inodesFree: "1"
evictionMinimumReclaim:
  nodefs.available: 1Mi
  nodefs.inodesFree: "1"
imageGCHighThresholdPercent: 100
fileCheckFrequency: 10s
podCIDR: 10.100.0.0/24
serializeImagePulls: false
volumeStatsAggPeriod: 10s
`

// suite runs upstream's suite.
type suite struct {
	options
	programs programs
	endpoint string
	dir      string // temporary folder
}

// run runs the suite with one kubelet. Its results and logs are in the folder label of the
// results.
func (s suite) run(ctx context.Context, label, kubelet string) (*report, error) {
	dir, results := filepath.Join(s.dir, label), filepath.Join(s.results, label)
	for _, path := range []string{dir, filepath.Join(dir, "bin"), results} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	// Ginkgo runs a suite in the folder of its program, where this one writes files.
	program := filepath.Join(dir, "e2e_node.test")
	if err := errors.Join(os.Symlink(kubelet, filepath.Join(dir, "bin/kubelet")), os.Symlink(s.programs.suite, program)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "base.yaml"), []byte(baseConfig), 0o644); err != nil {
		return nil, err
	}
	standIns := filepath.Join(dir, "stand-ins")
	if err := linkStandIns(standIns); err != nil {
		return nil, err
	}
	uncover, err := cover(dir)
	if err != nil {
		return nil, err
	}
	defer uncover()
	defer removeCgroups()
	defer func() {
		limit := 2 * time.Minute
		if ctx.Err() != nil {
			limit = 5 * time.Second // the testbed removes the remaining pods
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		if err := removePods(ctx, s.endpoint); err != nil {
			logf("remove pods: %v", err)
		}
	}()
	socket := filepath.Join(dir, "units.sock")
	u := &units{environ: append(without(os.Environ(), "PATH", "TMPDIR"), "PATH="+systemPath)}
	stop, err := u.serve(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer stop()

	logf("%s: run the suite with %s; log: %s", label, kubelet, filepath.Join(results, "suite.log"))
	log, err := os.Create(filepath.Join(results, "suite.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.programs.ginkgo, s.args(program, results)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(without(os.Environ(), "PATH", "KUBECONFIG", "KUBE_TEST_REPO"), "PATH="+standIns+":"+systemPath, socketVariable+"="+socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // runs the suite's clean-up
	cmd.WaitDelay = 15 * time.Second                                        // less than the testbed's grace
	begin := time.Now()
	err = cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that remain in its group
	logf("%s: ended after %v", label, time.Since(begin).Round(time.Second))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil { // failed specs give a code, too
		return nil, errors.Join(err, context.Cause(ctx))
	}
	r, err := readReport(filepath.Join(results, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", label, err, tail(log.Name()))
	}
	if len(r.specs) == 0 {
		return nil, fmt.Errorf("%s: the suite ran no spec: %s\n%s\n%s", label, strings.Join(r.problems, "; "), tail(log.Name()), tail(filepath.Join(results, "kubelet.log")))
	}
	return r, nil
}

// args returns the arguments of Ginkgo and, after "--", of the suite's program.
func (s suite) args(program, results string) []string {
	dir := filepath.Dir(program)
	args := []string{
		"--no-color", "--silence-skips", "--succinct", "--procs=" + strconv.Itoa(s.procs), "--timeout=" + s.timeout.String(), "--grace-period=10s",
		"--output-dir=" + results, "--json-report=report.json", "--label-filter=" + s.filter(),
	}
	if s.focus != "" {
		args = append(args, "--focus="+s.focus)
	}
	if s.skip != "" {
		args = append(args, "--skip="+s.skip)
	}
	return append(args, program, "--",
		"--k8s-bin-dir="+filepath.Join(dir, "bin"),
		"--kubelet-config-file="+filepath.Join(dir, "base.yaml"),
		"--container-runtime-endpoint="+s.endpoint,
		"--report-dir="+results,
		"--prepull-images=false",
	)
}

// without returns environ without some variables.
func without(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(names, name)
	})
}

// tail returns the last lines of a log file, for an error message.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(text)
}

package mutate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrBuild tells that sources do not compile.
var ErrBuild = errors.New("mutate: does not compile")

// Tests are the compiled tests of a package.
type Tests struct {
	// Package is their folder.
	Package string
	binary  string
	dir     string
}

// Build compiles the tests of the package in a folder, the empty one being the
// current one, while sources are replaced or added, by their names. It writes to dir
// what it needs, and so do the tests. The error wraps ErrBuild when something does
// not compile.
func Build(ctx context.Context, folder, dir string, sources map[string][]byte) (Tests, error) {
	t := Tests{Package: folder, binary: filepath.Join(dir, "mutate.test"), dir: dir}
	if err := os.RemoveAll(t.binary); err != nil {
		return t, err
	}
	if out, err := compile(ctx, folder, dir, sources, "test", "-c", "-vet=off", "-o", t.binary, "-ldflags=-s -w"); err != nil {
		return t, fmt.Errorf("%w: %s", err, out)
	}
	if _, err := os.Stat(t.binary); err != nil {
		return t, fmt.Errorf("mutate: no tests in %s", folder)
	}
	return t, nil
}

// compile runs the go command in a folder with other sources, and returns what it
// says.
func compile(ctx context.Context, folder, dir string, sources map[string][]byte, args ...string) ([]byte, error) {
	overlay, err := overlay(dir, sources)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", append(args, "-overlay="+overlay, ".")...)
	command.Dir = folder
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return out, ErrBuild
	}
	return out, nil
}

// overlay writes sources, and the file that puts them into their places.
func overlay(dir string, sources map[string][]byte) (string, error) {
	replace := map[string]string{}
	for name, source := range sources {
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".go")+".mutant.go")
		if err := os.WriteFile(replace[path], source, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// Compiling returns those mutants of a package that compile. It writes to dir. The
// error wraps ErrBuild when the package does not compile without a mutant.
func Compiling(ctx context.Context, folder, dir string, all []Placed) ([]Placed, error) {
	for {
		sources, err := Combine(all)
		if err != nil {
			return nil, err
		}
		out, err := compile(ctx, folder, dir, sources, "build", "-gcflags=-e")
		if !errors.Is(err, ErrBuild) {
			return all, err
		}
		bad := blamed(out)
		if len(bad) == 0 {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		var good []Placed
		for i, p := range all {
			if !bad[i+1] {
				good = append(good, p)
			}
		}
		all = good
	}
}

// Limits are what a run of tests may take.
type Limits struct {
	// Run selects tests, as go test -run does. Empty is all.
	Run string
	// CPU bounds the processor time of the tests, in seconds, and Timeout how long
	// they take, which on a busy machine is more. Zero is 30, and 3 minutes.
	CPU     int
	Timeout time.Duration
	// Memory bounds the address space of the tests, in KiB: what runs in circles
	// may eat memory, too. Zero is 4 GiB.
	Memory int
}

// Outcome is what the tests say of a mutant.
type Outcome uint8

const (
	// Survived: they all succeed.
	Survived Outcome = iota
	// Failed: one of them fails, or the process dies.
	Failed
	// Expired: they ran longer than CPU or Timeout allow. That may as well be the
	// machine's load, or a limit that is too narrow.
	Expired
)

// Test runs the tests with -short on the mutant of a number, or on none, which is 0,
// and tells what came of it, and what they wrote.
func (t Tests) Test(ctx context.Context, mutant int, l Limits) (Outcome, string, error) {
	timeout := cmp.Or(l.Timeout, 3*time.Minute)
	return t.start(ctx, l, timeout, mutant, "", "-test.failfast", "-test.timeout="+timeout.String(), "-test.run="+l.Run)
}

// start runs the tests on a mutant, or on none, which is 0. They write into the file passed,
// if there is one, what they come by. Both are always said: who runs on a mutant itself has
// them in its own environment.
func (t Tests) start(ctx context.Context, l Limits, timeout time.Duration, mutant int, passed string, args ...string) (Outcome, string, error) {
	hung, cancel := context.WithTimeout(ctx, timeout+timeout/2)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec nice -n 5 "$0" -test.short "$@"`, cmp.Or(l.Memory, 4<<20), cmp.Or(l.CPU, 30))
	tests := exec.CommandContext(hung, "sh", append([]string{"-c", limited, t.binary}, args...)...)
	tests.Dir = t.Package
	tests.Env = append(os.Environ(), "TMPDIR="+t.dir, variable+"="+strconv.Itoa(mutant), passingBy+"="+passed)
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tests.Cancel = func() error { return syscall.Kill(-tests.Process.Pid, syscall.SIGKILL) }
	tests.WaitDelay = time.Second
	out, err := tests.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil:
		return Survived, string(out), nil
	case hung.Err() != nil || killed(tests.ProcessState) || bytes.Contains(out, []byte("panic: test timed out after")):
		return Expired, fmt.Sprintf("%s\n%v", out, err), nil
	}
	return Failed, fmt.Sprintf("%s\n%v", out, err), nil
}

// Passing returns, by the numbers of n mutants, which tests come by them, as a Limits.Run that
// selects these. Each test runs once, by itself. If one does not succeed then, it may need
// others, or come by more after them: all tests are selected for each mutant, as they are if
// Limits.Run selects parts of tests, which are not told apart.
func (t Tests) Passing(ctx context.Context, n int, l Limits) (map[int]string, error) {
	if strings.Contains(l.Run, "/") {
		return whole(n, l), nil
	}
	timeout := cmp.Or(l.Timeout, 3*time.Minute)
	outcome, list, err := t.start(ctx, l, timeout, 0, "", "-test.list="+cmp.Or(l.Run, "."))
	if err != nil {
		return nil, err
	}
	if outcome != Survived {
		return whole(n, l), nil
	}
	tests := map[int][]string{}
	for _, name := range strings.Fields(list) {
		name = regexp.QuoteMeta(name) // a TestMain may write there, too
		passed := filepath.Join(t.dir, "passed")
		if err := os.WriteFile(passed, nil, 0o600); err != nil {
			return nil, err
		}
		outcome, _, err := t.start(ctx, l, timeout, 0, passed, "-test.timeout="+timeout.String(), "-test.run=^"+name+"$")
		if err != nil {
			return nil, err
		}
		if outcome != Survived {
			return whole(n, l), nil
		}
		numbers, err := os.ReadFile(passed)
		if err != nil {
			return nil, err
		}
		for number := range strings.FieldsSeq(string(numbers)) {
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, err
			}
			tests[n] = append(tests[n], name)
		}
	}
	selected := map[int]string{}
	for n, names := range tests {
		selected[n] = "^(" + strings.Join(names, "|") + ")$"
	}
	return selected, nil
}

// whole selects for each of n mutants all tests that the limits select.
func whole(n int, l Limits) map[int]string {
	selected := map[int]string{}
	for i := range n {
		selected[i+1] = cmp.Or(l.Run, ".")
	}
	return selected
}

// killed tells whether the kernel ended a process, as it does at a limit.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU)
}

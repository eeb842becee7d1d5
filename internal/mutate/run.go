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
	"strings"
	"syscall"
	"time"
)

// ErrBuild tells that the mutant does not compile.
var ErrBuild = errors.New("mutate: does not compile")

// Trial is a run of the tests of a package, one of whose sources is replaced.
type Trial struct {
	// Package is the folder of the tests. The empty one is the current folder.
	Package string
	// File is the source that is replaced, by Source. Without a File nothing is.
	File   string
	Source []byte
	// Dir is a folder for what the trial makes. Required.
	Dir string
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

// Test compiles and runs the tests with -short, and tells what came of it, and what
// they wrote. The error wraps ErrBuild when the source does not compile.
func (t Trial) Test(ctx context.Context) (Outcome, string, error) {
	overlay, err := t.overlay()
	if err != nil {
		return 0, "", err
	}
	binary := filepath.Join(t.Dir, "mutate.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "-overlay="+overlay, "-ldflags=-s -w", ".")
	build.Dir = t.Package
	if out, err := build.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return 0, "", ctx.Err()
		}
		return 0, string(out), fmt.Errorf("%w: %s", ErrBuild, out)
	}
	if _, err := os.Stat(binary); err != nil {
		return 0, "", fmt.Errorf("mutate: no tests in %s", t.Package)
	}
	return t.test(ctx, binary)
}

func (t Trial) test(ctx context.Context, binary string) (Outcome, string, error) {
	timeout := cmp.Or(t.Timeout, 3*time.Minute)
	hung, cancel := context.WithTimeout(ctx, timeout+timeout/2)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -v %d; ulimit -t %d; exec nice -n 5 "$0" "$@"`, cmp.Or(t.Memory, 4<<20), cmp.Or(t.CPU, 30))
	tests := exec.CommandContext(hung, "sh", "-c", limited, binary, "-test.short", "-test.failfast", "-test.timeout="+timeout.String(), "-test.run="+t.Run)
	tests.Dir = t.Package
	tests.Env = append(os.Environ(), "TMPDIR="+t.Dir)
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

// killed tells whether the kernel ended a process, as it does at a limit.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU)
}

// overlay writes the broken source and the file that puts it into its place.
func (t Trial) overlay() (string, error) {
	replace := map[string]string{}
	if t.File != "" {
		path, err := filepath.Abs(t.File)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(t.Dir, strings.TrimSuffix(filepath.Base(path), ".go")+".mutant.go")
		if err := os.WriteFile(replace[path], t.Source, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.Dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

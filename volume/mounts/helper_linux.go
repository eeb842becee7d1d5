package mounts

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// helper mounts with mount(8) if a system call is not sufficient.
func helper(ctx context.Context, m Mount) error {
	args := []string{"-t", m.FSType}
	if len(m.Options) > 0 {
		args = append(args, "-o", strings.Join(m.Options, ","))
	}
	cmd := exec.CommandContext(ctx, "mount", append(args, "--", m.Source, m.Target)...)
	// mount(8) starts another program; both are in one process group, so that Cancel kills
	// both.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("mount %s: %w: %s", describe(m), err, strings.TrimSpace(string(out[:min(len(out), maxOutput)])))
}

// maxOutput bounds the part of a program's output in an error, in bytes.
const maxOutput = 1 << 10

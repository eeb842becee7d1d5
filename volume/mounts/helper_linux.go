package mounts

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// helper mounts what takes more than a system call, by mount(8).
func helper(ctx context.Context, m Mount) error {
	args := []string{"-t", m.FSType}
	if len(m.Options) > 0 {
		args = append(args, "-o", strings.Join(m.Options, ","))
	}
	cmd := exec.CommandContext(ctx, "mount", append(args, "--", m.Source, m.Target)...)
	// mount(8) starts another program, which ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("mount %s: %w: %s", describe(m), err, strings.TrimSpace(string(out[:min(len(out), maxOutput)])))
}

// maxOutput is how much of what a program says becomes part of an error.
const maxOutput = 1 << 10

package mounts

import (
	"context"
	"fmt"
	"strings"

	"github.com/podwright/podwright/internal/run"
)

// helper mounts with mount(8) if a system call is not sufficient.
func helper(ctx context.Context, m Mount) error {
	args := []string{"-t", m.FSType}
	if len(m.Options) > 0 {
		args = append(args, "-o", strings.Join(m.Options, ","))
	}
	out, err := run.Command(ctx, "mount", append(args, "--", m.Source, m.Target)...).CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("mount %s: %w: %s", describe(m), err, strings.TrimSpace(string(out[:min(len(out), maxOutput)])))
}

// maxOutput bounds the part of a program's output in an error, in bytes.
const maxOutput = 1 << 10

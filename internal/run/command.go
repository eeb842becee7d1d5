package run

import (
	"context"
	"os/exec"
	"time"
)

// Command returns a program that is killed with its children when ctx is done; on systems other than
// Unix its children may outlive it. If a child keeps the output of an ended program open, Wait returns
// after a second. Call the result's Cancel to kill the children of a program that has ended.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	return cmd
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/tools/testbed/internal/env"
)

type controlPlane struct {
	cmd     *exec.Cmd
	environ []string // additional variables of the command
}

// controlPlaneTimeout is the time between SIGTERM and SIGKILL.
const controlPlaneTimeout = time.Minute

// controlPlaneDir returns the folder of the control plane's module, which is in no workspace.
func controlPlaneDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/podwright/podwright/examples/tools/testbed").Output()
	if err != nil {
		return "", fmt.Errorf("find examples/tools/testbed: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "../controlplane"), nil
}

// startControlPlane starts the control plane and returns once it is ready. It builds the programs
// of Kubernetes if necessary.
func (s *session) startControlPlane(ctx context.Context, logs string) error {
	dir, err := controlPlaneDir(ctx)
	if err != nil {
		return err
	}
	program := filepath.Join(s.run.Dir, "controlplane")
	build := exec.CommandContext(ctx, "go", "build", "-C", dir, "-o", program, ".")
	build.Env = append(goEnv(os.Environ(), ""), "GOFLAGS=", "GOTMPDIR="+s.run.Dir)
	if err := runQuiet(build); err != nil {
		return err
	}
	cmd := exec.Command(program, "-exports", "-logs", logs)
	cmd.Env = append(withoutTestbedVars(os.Environ()), env.Run+"="+s.run.ID, "TMPDIR="+s.run.Dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.controlPlane = &controlPlane{cmd: cmd}
	// The program prints the exports when it is ready. A signal during the start must end it.
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(unix.SIGTERM) })
	defer stop()
	s.controlPlane.environ, err = readExports(out)
	return err
}

// readExports reads lines of the form export NAME=VALUE, up to PODWRIGHT_CONTROLPLANE.
func readExports(r io.Reader) ([]string, error) {
	var environ []string
	for lines := bufio.NewScanner(r); lines.Scan(); {
		kv, ok := strings.CutPrefix(lines.Text(), "export ")
		if !ok {
			return nil, fmt.Errorf("unexpected line %q", lines.Text())
		}
		environ = append(environ, kv)
		if strings.HasPrefix(kv, env.ControlPlane+"=") {
			return environ, nil
		}
	}
	return nil, errors.New("exited before it was ready")
}

// close stops the control plane and all its components.
func (c *controlPlane) close() error {
	if err := c.cmd.Process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.AfterFunc(controlPlaneTimeout, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	return nil
}

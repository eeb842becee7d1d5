package exec_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	osexec "os/exec"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
)

// processes is a runtime whose containers are processes of this machine.
type processes struct{}

// ExecSync runs a command. Its errors have the required properties: *osexec.ExitError has an exit
// code, and the context's error is context.DeadlineExceeded.
func (processes) ExecSync(ctx context.Context, _ string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	bound, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := osexec.CommandContext(bound, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if bound.Err() != nil {
		err = bound.Err()
	}
	return out.Bytes(), errOut.Bytes(), err
}

// Any runtime that runs commands works.
func Example() {
	prober, err := exec.New(exec.Config{Runtime: processes{}, Grace: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	container := &v1.Container{Name: "app", Env: []v1.EnvVar{{Name: "CODE", Value: "3"}}}
	for _, c := range []struct {
		command string
		timeout time.Duration
	}{{"echo well", time.Minute}, {"echo ill >&2; exit $(CODE)", time.Minute}, {"exec sleep 60", time.Second}} {
		result, err := prober.Probe(context.Background(), probe.Target{
			ContainerID: "process://0", Container: container, Timeout: c.timeout,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", c.command}}}},
		})
		fmt.Printf("%v %q %v\n", result.Verdict, result.Output, err)
	}
	// Output:
	// Success "well\n" <nil>
	// Failure "ill\n" <nil>
	// Failure "command timed out: \"sh -c exec sleep 60\" timed out after 1s" <nil>
}

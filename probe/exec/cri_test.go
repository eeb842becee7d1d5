package exec_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/memnet"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/exec"
)

// command is the program of the containers.
func command(ctx context.Context, p *fake.Process) int {
	fmt.Fprint(p.Stdout, "out")
	fmt.Fprint(p.Stderr, "err")
	switch p.Args[0] {
	case "fail":
		return 3
	case "hang":
		<-ctx.Done()
	}
	return 0
}

func start(t *testing.T, rt *fake.Runtime) string {
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "0d1e"}}
	sandbox, err := rt.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	id, err := rt.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}, pod)
	require.NoError(t, err)
	require.NoError(t, rt.StartContainer(t.Context(), id))
	return id
}

// served returns a client of a fake that is served over gRPC.
func served(t *testing.T, rt *fake.Runtime) *cri.RuntimeClient {
	listener := memnet.Listen(0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rt.Serve(ctx, listener) }()
	client, err := cri.DialRuntime(t.Context(), cri.ClientConfig{
		Endpoint: "unix:///memnet",
		Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		cancel()
		require.NoError(t, <-done)
	})
	return client
}

// T46: the responses of a CRI runtime have the right verdicts, in process and over gRPC.
func TestCRI(t *testing.T) {
	for name, through := range map[string]func(*testing.T, *fake.Runtime) exec.Runtime{
		"in process": func(_ *testing.T, rt *fake.Runtime) exec.Runtime { return rt },
		"gRPC":       func(t *testing.T, rt *fake.Runtime) exec.Runtime { return served(t, rt) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, err := fake.New(fake.Config{AnyImage: true, Exec: fake.Always(command)})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, rt.Close()) })
				id := start(t, rt)
				p, err := exec.New(exec.Config{Runtime: through(t, rt)})
				require.NoError(t, err)
				run := func(id, command string) (probe.Result, error) {
					return p.Probe(t.Context(), probe.Target{
						ContainerID: "fake://" + id, Timeout: 2 * time.Second, Container: &v1.Container{},
						Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}},
					})
				}
				got, err := run(id, "succeed")
				require.NoError(t, err)
				require.Equal(t, probe.Result{Verdict: probe.Success, Output: "outerr"}, got)
				got, err = run(id, "fail")
				require.NoError(t, err)
				require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "outerr"}, got)
				begin := time.Now()
				got, err = run(id, "hang")
				require.NoError(t, err)
				require.Equal(t, probe.Failure, got.Verdict)
				require.Contains(t, got.Output, "timed out after 2s")
				require.Equal(t, 2*time.Second, time.Since(begin))
				_, err = run("c0ffee", "succeed")
				require.True(t, cri.IsNotFound(err), err)
			})
		})
	}
}

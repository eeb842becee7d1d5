package logs

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// C40 at full speed: neither a lost line nor a doubled one.
func TestFollowUnderRotation(t *testing.T) {
	const rotations, most = 5, 100_000
	begin, enough := make(chan struct{}), make(chan struct{})
	written := 0
	rt, err := fake.New(fake.Config{AnyImage: true, Programs: fake.Always(func(_ context.Context, p *fake.Process) int {
		<-begin
		// A buffer cuts lines in two, as a pipe does.
		out := bufio.NewWriterSize(p.Stdout, 1000)
		for ended := false; !ended && written < most; {
			for range 10_000 {
				fmt.Fprintln(out, written)
				written++
			}
			select {
			case <-enough:
				ended = true
			default:
			}
		}
		out.Flush()
		return 0
	})})
	require.NoError(t, err)
	defer rt.Close()
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "n", Uid: "u"},
		LogDirectory: t.TempDir(),
	}
	sandbox, err := rt.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	id, err := rt.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image:    &runtimeapi.ImageSpec{Image: "i"},
		LogPath:  "0.log",
	}, pod)
	require.NoError(t, err)
	require.NoError(t, rt.StartContainer(t.Context(), id))
	path := filepath.Join(pod.LogDirectory, "0.log")
	exists(t, path)
	close(begin)
	underRotation(t, rt, Log{Path: path, ContainerID: id}, func(n int) {
		if n == rotations {
			close(enough)
		}
	}, func() int { return written })
}

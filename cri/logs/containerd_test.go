package logs

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/testcri"
)

// The tests in this file need real runtimes: examples/testbed provides them and
// sets the variables that say where they are.

func onContainerd(t *testing.T, test func(t *testing.T, runtime cri.RuntimeService)) {
	t.Helper()
	testcri.Each(t, func(t *testing.T, node testcri.Node) { test(t, only{node.Runtime(t), new(string)}) })
}

// only hides the containers of others.
type only struct {
	cri.RuntimeService
	id *string
}

func (o only) ListContainers(ctx context.Context, _ *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return o.RuntimeService.ListContainers(ctx, &runtimeapi.ContainerFilter{Id: *o.id})
}

// start runs a shell script in a container of a pod on the host's network, and
// returns the container's ID and its log.
func (o only) start(t *testing.T, script string) (id, path string) {
	t.Helper()
	uid := strings.ToLower(rand.Text())
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "logs-test-" + uid[:6], Namespace: "logs-test", Uid: uid},
		LogDirectory: t.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
	sandbox, err := o.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		require.NoError(t, o.StopPodSandbox(ctx, sandbox))
		require.NoError(t, o.RemovePodSandbox(ctx, sandbox))
	})
	id, err = o.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image:    &runtimeapi.ImageSpec{Image: os.Getenv("PODWRIGHT_IMAGE_BUSYBOX")},
		Command:  []string{"/bin/sh", "-c", script},
		LogPath:  "0.log",
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}, pod)
	require.NoError(t, err)
	*o.id = id
	require.NoError(t, o.StartContainer(t.Context(), id))
	path = filepath.Join(pod.LogDirectory, "0.log")
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, time.Minute, time.Millisecond)
	return id, path
}

// C40 on real runtimes: a container that writes as fast as it can, rotated all
// the time. seq fills a pipe in blocks that cut lines in two. The container stays
// for a while after its last line: containerd 1.6 throws away what is still in the
// pipe when the last process ends, up to 20,000 of these lines, which then are in
// no file at all.
func TestContainerdFollowUnderRotation(t *testing.T) {
	const n = 1_000_000
	onContainerd(t, func(t *testing.T, runtime cri.RuntimeService) {
		o := runtime.(only)
		id, path := o.start(t, "sleep 1; seq 0 "+strconv.Itoa(n-1)+"; sleep 4")
		underRotation(t, o, Log{Path: path, ContainerID: id}, newCounting(), n, func() {})
	})
}

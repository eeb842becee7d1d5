package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// These tests run real pods: go run ./examples/tools/testbed -- go test ./examples/tools/testbed

type testPod struct {
	*criConn
	id     string
	config *criv1.PodSandboxConfig
}

func dialTest(t *testing.T, endpoint string) *criConn {
	c, err := dialCRI(strings.TrimPrefix(endpoint, "unix://"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.conn.Close()) })
	return c
}

func runTestPod(t *testing.T, c *criConn, name string, ports ...*criv1.PortMapping) testPod {
	p := testPod{criConn: c, config: &criv1.PodSandboxConfig{
		Metadata:     &criv1.PodSandboxMetadata{Name: name, Namespace: "testbed", Uid: name + "-uid"},
		LogDirectory: t.TempDir(),
		PortMappings: ports,
		Linux:        &criv1.LinuxPodSandboxConfig{},
	}}
	resp, err := c.runtime.RunPodSandbox(t.Context(), &criv1.RunPodSandboxRequest{Config: p.config})
	require.NoError(t, err)
	p.id = resp.GetPodSandboxId()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := c.runtime.StopPodSandbox(ctx, &criv1.StopPodSandboxRequest{PodSandboxId: p.id})
		require.NoError(t, err)
		_, err = c.runtime.RemovePodSandbox(ctx, &criv1.RemovePodSandboxRequest{PodSandboxId: p.id})
		require.NoError(t, err)
	})
	return p
}

// start runs a container whose log is NAME.log.
func (p testPod) start(t *testing.T, name, image string, argv ...string) string {
	created, err := p.runtime.CreateContainer(t.Context(), &criv1.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &criv1.ContainerConfig{
			Metadata: &criv1.ContainerMetadata{Name: name},
			Image:    &criv1.ImageSpec{Image: image},
			Command:  argv, LogPath: name + ".log",
			Linux: &criv1.LinuxContainerConfig{},
		},
	})
	require.NoError(t, err)
	id := created.GetContainerId()
	_, err = p.runtime.StartContainer(t.Context(), &criv1.StartContainerRequest{ContainerId: id})
	require.NoError(t, err)
	return id
}

func (p testPod) status(t *testing.T, id string) *criv1.ContainerStatus {
	resp, err := p.runtime.ContainerStatus(t.Context(), &criv1.ContainerStatusRequest{ContainerId: id})
	require.NoError(t, err)
	return resp.GetStatus()
}

func (p testPod) exited(t *testing.T, id string) int32 {
	require.Eventually(t, func() bool {
		return p.status(t, id).GetState() == criv1.ContainerState_CONTAINER_EXITED
	}, time.Minute, 20*time.Millisecond)
	return p.status(t, id).GetExitCode()
}

func (p testPod) log(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(p.config.LogDirectory, name+".log"))
	require.NoError(t, err)
	return string(text)
}

func eachRuntime(t *testing.T, f func(t *testing.T, rt tb.Runtime, images tb.ImageNames)) {
	images := tb.Images(t)
	for _, rt := range tb.Runtimes(t) {
		t.Run(rt.Name, func(t *testing.T) { f(t, rt, images) })
	}
}

func TestBusyboxPod(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		pod := runTestPod(t, dialTest(t, rt.Endpoint), "busybox")
		id := pod.start(t, "hello", images.Busybox, "sh", "-c", "echo hello from $(hostname -i) && ls /bin | grep -cx wget; exit 3")
		require.EqualValues(t, 3, pod.exited(t, id))

		status, err := pod.runtime.PodSandboxStatus(t.Context(), &criv1.PodSandboxStatusRequest{PodSandboxId: pod.id})
		require.NoError(t, err)
		ip := status.GetStatus().GetNetwork().GetIp()
		require.NotEmpty(t, ip)
		require.Contains(t, pod.log(t, "hello"), "stdout F hello from")
		require.Contains(t, pod.log(t, "hello"), "stdout F 1\n")

		server := pod.start(t, "server", images.Testprog2, "/testprog", "http", ":8080")
		client := pod.start(t, "client", images.Busybox, "sh", "-c",
			fmt.Sprintf("until wget -qO- http://%s:8080/version; do sleep 0.2; done", ip))
		require.EqualValues(t, 0, pod.exited(t, client), pod.log(t, "client"))
		require.Contains(t, pod.log(t, "client"), "stdout F v2")
		_, err = pod.runtime.StopContainer(t.Context(), &criv1.StopContainerRequest{ContainerId: server, Timeout: 10})
		require.NoError(t, err)
		require.EqualValues(t, 0, pod.exited(t, server))
	})
}

// TestRuntimeEnds: after each kind of stop a runtime can start again, and its pods run on.
func TestRuntimeEnds(t *testing.T) {
	eachRuntime(t, func(t *testing.T, rt tb.Runtime, images tb.ImageNames) {
		c := dialTest(t, rt.Endpoint)
		pod := runTestPod(t, c, "survivor")
		id := pod.start(t, "main", images.Testprog, "/testprog", "run")
		begun := pod.status(t, id).GetStartedAt()

		answers := func(within time.Duration) error {
			fresh := dialTest(t, rt.Endpoint)
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := fresh.runtime.Version(ctx, &criv1.VersionRequest{})
			return err
		}
		for _, end := range []func(testing.TB){rt.Stop, rt.Kill, rt.Pause} {
			end(t)
			require.Error(t, answers(500*time.Millisecond))
			rt.Start(t)
			require.NoError(t, answers(time.Minute))
		}
		rt.Pause(t)
		require.Error(t, answers(500*time.Millisecond))
		rt.Resume(t)
		require.NoError(t, answers(time.Minute))
		rt.Pause(t)
		rt.Stop(t) // works while it is paused, too
		rt.Start(t)
		rt.Start(t) // does not affect a running runtime

		pod = testPod{criConn: dialTest(t, rt.Endpoint), id: pod.id, config: pod.config}
		require.Equal(t, criv1.ContainerState_CONTAINER_RUNNING, pod.status(t, id).GetState())
		require.Equal(t, begun, pod.status(t, id).GetStartedAt())
	})
}

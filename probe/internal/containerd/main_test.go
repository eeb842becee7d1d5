package containerd

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/testkit/testcri"
	"github.com/podwright/podwright/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds waits of a failed test.
const testTimeout = time.Minute

type node struct {
	t                 *testing.T
	runtime           cri.RuntimeService
	testprog, busybox string
}

func onContainerd(t *testing.T, test func(t *testing.T, n node)) {
	testcri.Each(t, func(t *testing.T, n testcri.Node) {
		test(t, node{t, n.Runtime(t), n.Testprog, n.Busybox})
	})
}

type pod struct {
	node
	id, ip string
	config *runtimeapi.PodSandboxConfig
}

// pod runs a sandbox and removes it at the end. A pod on the host's network has no address of its
// own.
func (n node) pod(network runtimeapi.NamespaceMode) pod {
	n.t.Helper()
	uid := strings.ToLower(rand.Text())
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "probe-test-" + uid[:6], Namespace: "probe-test", Uid: uid},
		LogDirectory: n.t.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: network},
		}},
	}
	id, err := n.runtime.RunPodSandbox(n.t.Context(), config, "")
	require.NoError(n.t, err)
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(n.t.Context()), testTimeout)
		defer cancel()
		require.NoError(n.t, n.runtime.StopPodSandbox(ctx, id))
		require.NoError(n.t, n.runtime.RemovePodSandbox(ctx, id))
	})
	reply, err := n.runtime.PodSandboxStatus(n.t.Context(), id, false)
	require.NoError(n.t, err)
	return pod{n, id, reply.GetStatus().GetNetwork().GetIp(), config}
}

func (p pod) start(name, image string, command ...string) string {
	p.t.Helper()
	id, err := p.runtime.CreateContainer(p.t.Context(), p.id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command:  command,
		LogPath:  name + ".log",
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}, p.config)
	require.NoError(p.t, err)
	require.NoError(p.t, p.runtime.StartContainer(p.t.Context(), id))
	return id
}

// target returns a probe of the pod with a timeout of a minute.
func (p pod) target(handler v1.ProbeHandler) probe.Target {
	return probe.Target{PodIP: p.ip, Container: &v1.Container{}, Timeout: testTimeout, Probe: &v1.Probe{ProbeHandler: handler}}
}

func (p pod) ask(prober probe.Prober, target probe.Target) probe.Result {
	p.t.Helper()
	got, err := prober.Probe(p.t.Context(), target)
	require.NoError(p.t, err)
	return got
}

// passes waits until a probe passes, because a server needs time to listen.
func (p pod) passes(prober probe.Prober, target probe.Target) {
	p.t.Helper()
	p.eventually(func() bool { return p.ask(prober, target).Verdict == probe.Success })
}

func (n node) eventually(what func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(testTimeout); !what(); time.Sleep(20 * time.Millisecond) {
		require.True(n.t, time.Now().Before(deadline), "not in time")
	}
}

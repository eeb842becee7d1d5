package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ptr[T any](v T) *T { return &v }

// harness is a Builder with files in a temporary directory.
type harness struct {
	t      *testing.T
	dir    string
	cfg    Config
	b      *Builder
	events []string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "resolv.conf"), []byte("nameserver 10.0.0.1\nsearch example.org\n"), 0o600))
	h.cfg.LogRoot = filepath.Join(h.dir, "pods")
	h.cfg.Node.Name, h.cfg.Node.IPs = "node-1", []string{"192.0.2.1"}
	h.cfg.DNS.HostResolver = filepath.Join(h.dir, "resolv.conf")
	h.cfg.Event = func(_ v1.ObjectReference, _, reason, _ string) { h.events = append(h.events, reason) }
	h.restart()
	return h
}

// restart makes a Builder of the changed configuration.
func (h *harness) restart() {
	h.t.Helper()
	b, err := New(h.cfg)
	require.NoError(h.t, err)
	h.b = b
}

func (h *harness) takeEvents() []string {
	out := h.events
	h.events = nil
	return out
}

func testPod(names ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0d1e", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSDefault,
			TerminationGracePeriodSeconds: ptr(int64(30)),
		},
	}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: name, Image: "busybox",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		})
	}
	return pod
}

func quantities(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

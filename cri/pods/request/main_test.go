package request

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/testpods"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is the configuration of a Builder with files in a temporary directory.
type harness struct {
	t      *testing.T
	dir    string
	cfg    Config
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
	return h
}

// builder returns a Builder with the current configuration.
func (h *harness) builder() *Builder {
	h.t.Helper()
	b, err := New(h.cfg)
	require.NoError(h.t, err)
	return b
}

func (h *harness) takeEvents() []string {
	out := h.events
	h.events = nil
	return out
}

func testPod(names ...string) *v1.Pod { return testpods.New(names...) }

func quantities(pairs ...string) v1.ResourceList { return testpods.Quantities(pairs...) }

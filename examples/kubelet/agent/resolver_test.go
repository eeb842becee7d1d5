package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/config"
)

// What pods do not get of the node's resolver is told once, when the loop begins. What it then
// does are spans.
func TestResolverOfTheNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("nameserver 10.0.0.1\n", 4)), 0o600))
	for path, want := range map[string]string{
		file:                            "v1 Node n1 n1 Warning CheckLimitsForResolvConf: " + file + ": 4 name servers: pods get the first 3",
		filepath.Join(t.TempDir(), "x"): "no such file",
		"":                              "",
	} {
		var h heard
		g := &ground{event: h.event}
		g.cfg.Config = config.Default()
		g.cfg.Flags.NodeName, g.cfg.Kubelet.ResolverConfig = "n1", &path
		g.checkResolver()
		if want == "" {
			require.Empty(t, h.events)
			continue
		}
		require.Len(t, h.events, 1)
		require.Contains(t, h.events[0], want)
	}
	n := newPodsNode(t, fake.Config{})
	n.cfg.Kubelet.ResolverConfig = &file
	require.NoError(t, os.WriteFile(filepath.Join(n.cfg.Kubelet.StaticPodPath, "p.yaml"), []byte(manifest), 0o600))
	var log lockedBuffer
	n.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var mu sync.Mutex
	spans := map[string]int{}
	n.cfg.Span = func(ctx context.Context, name string, _ ...slog.Attr) (context.Context, func(error)) {
		return ctx, func(error) {
			mu.Lock()
			defer mu.Unlock()
			spans[name]++
		}
	}
	n.during(t, func(a *Agent) {
		require.Eventually(t, func() bool { return runs(a) }, 10*time.Second, time.Millisecond)
		require.Equal(t, 1, log.count("CheckLimitsForResolvConf"))
	})
	mu.Lock()
	defer mu.Unlock()
	require.Positive(t, spans["syncPod"], "spans are taken")
}

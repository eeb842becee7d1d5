package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/server"
)

// Whoever removes the root folder while the agent runs is told, soon and once.
func TestRootFolderIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(root string) error{
		"folder": os.RemoveAll,
		"file":   func(root string) error { return os.Remove(filepath.Join(root, "podwright.lock")) },
		"another one in its place": func(root string) error {
			if err := os.RemoveAll(root); err != nil {
				return err
			}
			return folders{root: root}.prepare()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newPodsNode(t, fake.Config{}, "p")
			var log lockedBuffer
			n.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			n.during(t, func(a *Agent) {
				require.Eventually(t, func() bool { return runs(a) }, 10*time.Second, 10*time.Millisecond)
				root := func() server.Check {
					checks := a.Health()
					return checks[len(checks)-1]
				}
				require.Equal(t, server.Check{Name: "root", OK: true}, root())
				require.NoError(t, remove(n.cfg.Flags.RootDir))
				require.Eventually(t, func() bool { return !root().OK }, 2*rootPeriod, 10*time.Millisecond)
				require.Contains(t, root().Message, n.cfg.Flags.RootDir+": the root folder was removed")
				time.Sleep(2 * rootPeriod)
				require.Equal(t, 1, log.count("the root folder was removed"))
			})
		})
	}
}

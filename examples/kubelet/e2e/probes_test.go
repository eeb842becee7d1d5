package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A probe command that ignores signals and writes endlessly fails, and its processes are removed
// while its container continues.
func TestFloodingProbe(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		folder := t.TempDir()
		flood, c := "flood-"+s.node, shell("main", s.images.Busybox, untilTerm)
		c.ReadinessProbe = execProbe("sh", "-c", "[ -e /steps/enough ] && exit 0; echo x >> /steps/floods; trap '' TERM INT HUP; exec yes "+flood)
		c.ReadinessProbe.TimeoutSeconds = 1
		s.writeManifest(t, "flood.yaml", mountSteps(newPod("flood", c), folder))
		s.waitEvent(t, "flood", "Unhealthy", "Readiness probe failed", "containers{main}")
		s.becomesUnready(t, "flood", "main")
		wait(t, effectTimeout, "the probe has run 8 times", func() error {
			data, err := os.ReadFile(filepath.Join(folder, "floods"))
			if n := strings.Count(string(data), "x\n"); err == nil && n < 8 {
				err = fmt.Errorf("%d runs", n)
			}
			return err
		})
		consistently(t, 2*time.Second, "probe processes do not accumulate", func() error {
			// One, and earlier ones that are being killed: on a loaded machine that takes more than
			// a period.
			if found := processes(flood); len(found) > 4 {
				return fmt.Errorf("%v", found)
			}
			return nil
		})
		require.NoError(t, os.WriteFile(filepath.Join(folder, "enough"), nil, 0o644))
		s.becomesReady(t, "flood")
		wait(t, effectTimeout, "all probe processes are killed", func() error {
			if left := processes(flood); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
			return nil
		})
		require.NoError(t, s.isRunning("flood"))
	})
}

// processes returns the commands that contain the text, by process ID.
func processes(text string) map[string]string {
	out := map[string]string{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return out
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), text) {
			out[filepath.Base(filepath.Dir(file))] = strings.ReplaceAll(string(data), "\x00", " ")
		}
	}
	return out
}

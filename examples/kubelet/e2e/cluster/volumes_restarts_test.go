package cluster_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mounts returns the lines of the mount table for paths of the agent that contain one of the parts.
func (s *storage) mounts(t *testing.T, parts ...string) (out []string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, s.root) && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) }) {
			out = append(out, line)
		}
	}
	return out
}

// The agent is killed during a hanging mount, the driver is restarted, and the API server is
// unavailable at the agent's start. The mounts of running pods stay unchanged (V17), the hanging
// mount completes in the end, and mounts of orphaned pods are removed (V18).
func testRestarts(t *testing.T, s *storage) {
	s.ready(t, "stays")
	s.exec(t, "stays/c", "sh", "-c", "echo of stays > /v/f")
	handle := s.handle(t, "stays")
	mounted := func() []string { return s.mounts(t, "pvc-"+handle, fmt.Sprintf("%x", sha256.Sum256([]byte(handle)))) }
	ids, mounts, firstCall := s.ids(t), mounted(), len(s.driver.Log())
	require.Len(t, mounts, 2, "one mount each for staging and publishing")
	requireUndisturbed := func() {
		t.Helper()
		now := s.ids(t)
		for name, id := range ids {
			require.Equal(t, id, now[name], name)
		}
		require.Equal(t, mounts, mounted())
		for _, call := range s.driver.Log()[firstCall:] {
			require.False(t, strings.HasSuffix(call, handle) && (strings.Contains(call, "NodeUn") || strings.Contains(call, "ControllerUn")), call)
		}
		require.Equal(t, "of stays\n", s.exec(t, "stays/c", "cat", "/v/f"))
	}

	s.apply(t, claim("hangs", "ReadWriteOnce", immediate)+claimPod("hangs"))
	hung := s.handle(t, "hangs")
	var repaired atomic.Bool
	s.setFault(func(ctx context.Context, method, about string) error {
		if method == "NodePublishVolume" && about == hung && !repaired.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	tries := func() (n int) {
		for _, call := range s.driver.Log() {
			if call == "begin NodePublishVolume "+hung {
				n++
			}
		}
		return n
	}
	waitHangs := func(n int) {
		t.Helper()
		s.until(t, fmt.Sprintf("mount %d hangs", n), func() error {
			if got := tries(); got < n {
				return fmt.Errorf("%d attempts so far", got)
			}
			return nil
		})
	}
	waitHangs(1)
	s.kill(t)
	s.start(t)
	waitHangs(2)
	requireUndisturbed()

	s.driver.Stop()
	s.waitMatch(t, "csinode", s.name, "{.spec.drivers[*].name}", func(names string) bool { return !strings.Contains(names, s.driver.Name) })
	requireUndisturbed()
	s.waitEventText(t, "Pod", "hangs", "FailedMount", s.driver.Name)
	require.NoError(t, s.driver.Start())
	waitHangs(3)

	s.proxy.setDown(true)
	s.kill(t)
	s.start(t)
	time.Sleep(5 * time.Second)
	requireUndisturbed()
	s.proxy.setDown(false)
	repaired.Store(true)
	s.ready(t, "hangs")
	requireUndisturbed()

	s.kill(t)
	s.do(t, "delete", "pod", "hangs", "--force", "--grace-period=0")
	s.start(t)
	s.until(t, "its volume is unmounted and detached", func() error {
		return s.callsAfter(firstCall, hung, "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume")
	})
	require.False(t, slices.ContainsFunc(s.driver.Log(), func(l string) bool { return l == "begin NodeUnpublishVolume "+handle }))
	requireUndisturbed()
}

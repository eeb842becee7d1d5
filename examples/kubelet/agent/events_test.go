package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// lockedBuffer is written to and read at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A warning that repeats itself is logged once a minute, everything else always.
func TestRepeatedWarningsAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		event := logEvents(slog.New(slog.NewTextHandler(&log, nil)))
		ref := v1.ObjectReference{Namespace: "ns", Name: "a", UID: "1"}
		for range 10 {
			event(ref, v1.EventTypeWarning, "BackOff", "again")
			event(ref, v1.EventTypeNormal, "Started", "once more")
		}
		require.Equal(t, 1, log.count("again"))
		require.Equal(t, 10, log.count("once more"))
		event(v1.ObjectReference{Namespace: "ns", Name: "b", UID: "2"}, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 2, log.count("again"))
		time.Sleep(time.Minute)
		event(ref, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 3, log.count("again"))
	})
}

// What goes wrong in the agent itself is an event on the pod, as in the runtime.
func TestSyncerRecordsEvents(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		seen := map[string]int{}
		var mu sync.Mutex
		count := func(reason string) int {
			mu.Lock()
			defer mu.Unlock()
			return seen[reason]
		}
		w.start()
		w.agent.syncer.event = func(ref v1.ObjectReference, eventtype, reason, _ string) {
			mu.Lock()
			defer mu.Unlock()
			if eventtype == v1.EventTypeWarning && ref.UID == "1" && ref.Name == "pod-1" {
				seen[reason]++
			}
		}
		w.agent.syncer.networkReady = func() error { return errors.New("no plugin") }
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = false
		w.set(pod, podOf("2", v1.RestartPolicyAlways, "b"))
		w.sleep(10 * time.Second)
		require.Equal(t, map[string][]uint32{"b": {0}}, w.running(), "only who needs no network of its own")
		require.GreaterOrEqual(t, count(eventNetworkNotReady), 6)

		w.stop()
		w.start()
		w.sleep(10 * time.Second)
		require.Len(t, w.running(), 2)
	})
	inWorld(t, fake.Config{}, func(w *world) {
		w.start()
		require.NoError(t, os.WriteFile(w.agent.folders.pod("1"), nil, 0o600))
		var mu sync.Mutex
		seen := map[string]int{}
		count := func(reason string) int {
			mu.Lock()
			defer mu.Unlock()
			return seen[reason]
		}
		w.agent.syncer.event = func(ref v1.ObjectReference, _, reason, _ string) {
			mu.Lock()
			defer mu.Unlock()
			seen[string(ref.UID)+reason]++
		}
		fail := true
		w.intercept(func(_ context.Context, call string, do func() error) error {
			if call == "StopContainer" && fail {
				fail = false
				return errors.New("busy")
			}
			return do()
		})
		w.set(podOf("1", v1.RestartPolicyAlways, "a"), podOf("2", v1.RestartPolicyAlways, "b"))
		w.sleep(5 * time.Second)
		require.Equal(t, 1, count("1"+eventFailedPodFolder))
		require.NoError(t, os.Remove(w.agent.folders.pod("1")))
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.sleep(5 * time.Second)
		require.Equal(t, 1, count("2"+eventFailedKillPod))
		w.set()
		w.sleep(time.Minute)
		w.requireNothingLeft()
	})
}

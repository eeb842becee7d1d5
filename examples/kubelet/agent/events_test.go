package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
		event := logEvents(slog.New(slog.NewTextHandler(&log, nil)), func(uid types.UID) string { return map[types.UID]string{"2": "/m/b.yaml"}[uid] })
		ref := v1.ObjectReference{Namespace: "ns", Name: "a", UID: "1"}
		for range 10 {
			event(ref, v1.EventTypeWarning, "BackOff", "again")
			event(ref, v1.EventTypeNormal, "Started", "once more")
		}
		require.Equal(t, 1, log.count("again"))
		require.Equal(t, 10, log.count("once more"))
		event(v1.ObjectReference{Namespace: "ns", Name: "b", UID: "2"}, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 2, log.count("again"))
		require.Equal(t, 1, log.count("pod=ns/b field=\"\" manifest=/m/b.yaml"))
		require.Equal(t, 1, log.count("manifest="))
		time.Sleep(time.Minute)
		event(ref, v1.EventTypeWarning, "BackOff", "again")
		require.Equal(t, 3, log.count("again"))
	})
}

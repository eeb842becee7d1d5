package writer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However short a sink was behind, that is told; that it was not is not.
func TestSyncedIsTold(t *testing.T) {
	var told []time.Duration
	s := &target{name: "api", w: &Writer{}}
	s.synced(1)
	s.w.cfg.Metrics.Synced = func(_ string, behind time.Duration) { told = append(told, behind) }
	for _, behind := range []time.Duration{0, 1, time.Second} {
		s.synced(behind)
	}
	require.Equal(t, []time.Duration{1, time.Second}, told)
}

package metrics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podwright/podwright/syncloop/eviction"
)

func TestEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		m.Evictions.Evicted(eviction.Victim{Signal: eviction.MemoryAvailable, Measured: time.Now().Add(-2 * time.Second)})
		m.Evictions.Evicted(eviction.Victim{Signal: eviction.EmptyDirLimit})
		has(t, m.all, "kubelet_evictions kubelet_eviction_stats_age_seconds",
			"kubelet_evictions eviction_signal=memory.available 1", "kubelet_evictions eviction_signal=emptydirfs.limit 1",
			"kubelet_eviction_stats_age_seconds eviction_signal=memory.available 1 2")
	})
}

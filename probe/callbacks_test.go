package probe_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

// A panic in a callback is logged, and probes continue.
func TestCallbacksPanic(t *testing.T) {
	for name, set := range map[string]func(*probe.Config, func()){
		"Status": func(c *probe.Config, fail func()) {
			status := c.Status
			c.Status = func(uid types.UID) *v1.PodStatus { fail(); return status(uid) }
		},
		"OnChange": func(c *probe.Config, fail func()) { c.OnChange = func(probe.Change) { fail() } },
		"Event": func(c *probe.Config, fail func()) {
			c.Event = func(v1.ObjectReference, string, string, string) { fail() }
		},
		"Metrics.OnProbe":  func(c *probe.Config, fail func()) { c.Metrics.OnProbe = func(probe.Probed) { fail() } },
		"Metrics.OnRemove": func(c *probe.Config, fail func()) { c.Metrics.OnRemove = func(probe.Series) { fail() } },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			calls := 0
			once := func(c *probe.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				set(c, func() {
					if calls++; calls == 1 {
						panic("oh no")
					}
				})
			}
			inBubble(t, once, func(r *rig) {
				r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Warning}, probetest.Step{Verdict: probe.Success})
				for _, uid := range []types.UID{"u", "v"} {
					pod := podOf(uid, container("web", probes{probe.Readiness: every(10)}))
					r.set(pod, running("web", "fake://1"))
					r.sleep(15 * s)
					require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Success}, r.results(pod))
					r.RemovePod(uid)
				}
			})
			require.Equal(t, 1, strings.Count(log.String(), "Config."+name+" panicked: oh no"), log.String())
		})
	}
}

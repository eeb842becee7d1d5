package pleg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// A resize, which no list shows, is in the cache as soon as one look is through, with events
// and without, whether the actor waits for it or only asks.
func TestResizeIsSeenAtOnce(t *testing.T) {
	for _, events := range []bool{false, true} {
		bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
			rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
			rt.FailInspections(plegtest.Fault{Latency: 10 * time.Millisecond})
			cfg := pleg.Config{}
			if events {
				cfg.Runtime = rt.WithEvents()
			}
			r := run(t, cfg, rt)
			time.Sleep(1500 * time.Millisecond)
			for _, limit := range []int64{500, 600} {
				rt.Update("web", func(s *pleg.PodStatus) {
					s.Containers[0].Resources = &pleg.ContainerResources{MilliCPULimit: &limit}
				})
				began := time.Now()
				if limit == 600 {
					observe(t, r, "web")
					require.Equal(t, 10*time.Millisecond, time.Since(began))
				} else {
					synctest.Wait() // the event, if there is one, has started a look
					r.RequestRelist("web")
					time.Sleep(11 * time.Millisecond)
					synctest.Wait()
				}
				s, err := r.Get("web")
				require.NoError(t, err)
				require.Equal(t, limit, *s.Newest("c").Resources.MilliCPULimit)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}

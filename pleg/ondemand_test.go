package pleg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// Start, stop, resize and removal are in the cache as soon as one look is through,
// with events and without, whether the actor waits for it or only asks.
func TestEveryActionIsSeenAtOnce(t *testing.T) {
	limit := int64(500)
	actions := []struct {
		name string
		do   func(rt *plegtest.Runtime)
		seen func(s *pleg.PodStatus) bool
	}{
		{"start", func(rt *plegtest.Runtime) { rt.Set(plegtest.Pod("web", plegtest.Running("c-0"))) },
			func(s *pleg.PodStatus) bool { return len(s.Running()) == 1 }},
		{"resize", func(rt *plegtest.Runtime) {
			rt.Update("web", func(s *pleg.PodStatus) {
				s.Containers[0].Resources = &pleg.ContainerResources{MilliCPULimit: &limit}
			})
		}, func(s *pleg.PodStatus) bool { return s.Newest("c").Resources != nil }},
		{"stop", func(rt *plegtest.Runtime) { rt.Set(plegtest.Pod("web", plegtest.Exited("c-0", 0))) },
			func(s *pleg.PodStatus) bool { return !s.Empty() && len(s.Running()) == 0 }},
		{"removal", func(rt *plegtest.Runtime) { rt.Remove("web") }, (*pleg.PodStatus).Empty},
	}
	for _, events := range []bool{false, true} {
		for _, wait := range []bool{false, true} {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				rt.FailInspections(plegtest.Fault{Latency: 10 * time.Millisecond})
				cfg := pleg.Config{}
				if events {
					cfg.Runtime = rt.WithEvents()
				}
				r := run(t, cfg, rt)
				time.Sleep(1500 * time.Millisecond)
				for _, action := range actions {
					action.do(rt)
					began := time.Now()
					if wait {
						s, err := r.Observe(t.Context(), "web", began)
						require.NoError(t, err)
						require.True(t, action.seen(s), action.name)
						require.Equal(t, 10*time.Millisecond, time.Since(began), action.name)
					} else {
						synctest.Wait() // the event, if there is one, has started a look
						r.RequestRelist("web")
						time.Sleep(11 * time.Millisecond)
						synctest.Wait()
						s, err := r.Get("web")
						require.NoError(t, err)
						require.True(t, action.seen(s), action.name)
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
}

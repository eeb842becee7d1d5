package pleg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// told is what the callbacks were told.
type told struct {
	lists, failedLists, inspections, failedInspections int

	listTook, inspectTook time.Duration
	pods                  int
	stale                 []int
	streams               []pleg.StreamState
	modes                 []pleg.Mode
}

func (m *told) callbacks() pleg.Metrics {
	return pleg.Metrics{
		Listed: func(took time.Duration, pods int, err error) {
			m.lists++
			m.listTook, m.pods = took, pods
			if err != nil {
				m.failedLists++
			}
		},
		Inspected: func(took time.Duration, err error) {
			m.inspections++
			m.inspectTook = took
			if err != nil {
				m.failedInspections++
			}
		},
		Stale:  func(pods int) { m.stale = append(m.stale, pods) },
		Stream: func(s pleg.StreamHealth) { m.streams = append(m.streams, s.State) },
		Mode:   func(mode pleg.Mode) { m.modes = append(m.modes, mode) },
	}
}

// rest lets time pass until nothing is left to do.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The callbacks are told of every call, and of every change of state.
func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.FailList(plegtest.Fault{Latency: 20 * time.Millisecond})
		rt.Set(plegtest.Pod("web"))
		rt.FailPod("web", plegtest.Fault{Latency: 5 * time.Millisecond})
		m := &told{}
		r := run(t, pleg.Config{Runtime: rt.WithEvents(), Metrics: m.callbacks()}, rt)
		rest(1500 * time.Millisecond)
		require.NoError(t, r.Healthy())
		require.Equal(t, told{
			lists: 2, inspections: 1, listTook: 20 * time.Millisecond, inspectTook: 5 * time.Millisecond, pods: 1,
			streams: []pleg.StreamState{pleg.StreamOpening, pleg.StreamOpen}, modes: []pleg.Mode{pleg.Evented},
		}, *m)

		rt.FailPod("web", plegtest.Fault{Err: errTest})
		rt.Announce("web")
		rest(10 * time.Millisecond)
		require.Equal(t, []int{1}, m.stale)
		require.Equal(t, 1, m.failedInspections)
		rt.FailPod("web", plegtest.Fault{})
		rest(2 * time.Second)
		require.Equal(t, []int{1, 0}, m.stale)

		rt.FailList(plegtest.Fault{Err: errTest})
		rt.WithEvents().FailStreams(plegtest.Fault{Err: errTest})
		rt.WithEvents().BreakStreams()
		rest(500 * time.Millisecond)
		require.Equal(t, 1, m.failedLists)
		require.Equal(t, []pleg.Mode{pleg.Evented, pleg.Generic}, m.modes)
		require.Equal(t, pleg.StreamClosed, m.streams[len(m.streams)-1])
		require.NoError(t, r.stop())
	})
}

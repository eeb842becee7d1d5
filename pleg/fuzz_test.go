package pleg_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// outcome is the result of one history.
type outcome struct {
	events map[types.UID][]string // sorted
	end    map[types.UID]observed.Pod
	pods   int
}

const (
	fuzzPods = 4
	// lossy histories lose events, late ones deliver them up to 3 s late and thus out of order,
	// and in restarting ones the runtime is unavailable for a while. Then only the final states
	// must agree.
	lossy, late, restarting = 1, 2, 4
	// noisy histories send events for unchanged and for missing pods, doubled ones send each
	// event twice, backlog ones begin a stream with earlier events, and skewed ones have a clock
	// that jumps by hours. The events must still agree.
	noisy, doubled, backlog, skewed = 8, 16, 32, 64
	allFlags                        = 127
)

// act performs one step of a history: pods are created and removed; containers are created,
// start, exit, are removed, become unknown; sandboxes end.
func act(rt *plegtest.Runtime, op byte, count int, created time.Time) {
	uid := types.UID(fmt.Sprint("p", op%fuzzPods))
	rt.Update(uid, func(s *observed.Pod) {
		if s.Empty() {
			*s = plegtest.Pod(uid)
			s.Sandboxes[0].CreatedAt = created
			s.Sandboxes[0].ID = fmt.Sprintf("%s-sandbox-%d", uid, count)
		}
		newest := func(st observed.State) {
			if len(s.Containers) > 0 {
				s.Containers[0].State = st
			}
		}
		switch op / fuzzPods % 10 {
		case 0:
			c := plegtest.Created(fmt.Sprintf("c-%d", count))
			c.CreatedAt = created
			s.Containers = append([]observed.Container{c}, s.Containers...)
		case 1:
			c := plegtest.Running(fmt.Sprintf("c-%d", count))
			c.CreatedAt = created
			s.Containers = append([]observed.Container{c}, s.Containers...)
		case 2, 3:
			newest(observed.StateRunning)
		case 4:
			newest(observed.StateExited)
		case 5:
			newest(observed.StateUnknown)
		case 6:
			if n := len(s.Containers); n > 0 {
				s.Containers = s.Containers[:n-1]
			}
		case 7:
			s.Sandboxes[0].State, s.Sandboxes[0].IPs, s.IPs = observed.SandboxNotReady, nil, nil
		case 8:
			s.Sandboxes = append([]observed.Sandbox{{ID: fmt.Sprintf("s-%d", count), State: observed.SandboxReady}}, s.Sandboxes...)
		case 9:
			s.Sandboxes, s.Containers = nil, nil
		}
	})
}

// history runs one history under a PLEG. Steps are far enough apart for a list between any two
// of them.
func history(t *testing.T, ops []byte, flags byte, withEvents bool) outcome {
	rt := &plegtest.Runtime{}
	cfg := pleg.Config{Runtime: rt}
	if withEvents {
		cfg.Runtime = rt.WithEvents()
	}
	r := run(t, cfg, rt)
	time.Sleep(1100 * time.Millisecond)
	rng := rand.New(rand.NewPCG(uint64(flags), uint64(len(ops))))
	rt.Deliver(func(types.UID) []time.Duration { return delivery(rng, flags) })
	if flags&backlog != 0 {
		rt.WithEvents().Backlog(50)
	}
	for i, op := range ops {
		switch {
		case op == 255:
			rt.WithEvents().BreakStreams()
		case op == 254 && flags&restarting != 0:
			restart(rt)
		}
		created := time.Unix(int64(i), 0)
		if flags&skewed != 0 {
			created = created.Add(time.Duration(int(op)%7-3) * time.Hour)
		}
		act(rt, op, i, created)
		if flags&noisy != 0 {
			time.Sleep(time.Duration(op) * time.Millisecond)
			rt.Announce(types.UID(fmt.Sprint("p", rng.IntN(fuzzPods+1))))
			rt.Announce("")
		}
		time.Sleep(1300 * time.Millisecond)
	}
	time.Sleep(301 * time.Second)
	synctest.Wait()
	o := outcomeOf(t, r, rt)
	require.NoError(t, r.Healthy())
	require.NoError(t, r.stop())
	return o
}

// outcomeOf returns the PLEG's result, whose final state must be the actual one.
func outcomeOf(t *testing.T, r *rig, rt *plegtest.Runtime) outcome {
	o := outcome{events: map[types.UID][]string{}, end: map[types.UID]observed.Pod{}, pods: len(r.Pods())}
	for _, e := range r.events {
		o.events[e.UID] = append(o.events[e.UID], e.String())
	}
	for i := range fuzzPods {
		uid := types.UID(fmt.Sprint("p", i))
		sort.Strings(o.events[uid])
		s, err := r.Get(uid)
		require.NoError(t, err)
		actual, err := rt.PodStatus(t.Context(), uid)
		require.NoError(t, err)
		got := *s
		got.ObservedAt, got.IPs, got.Name, got.Namespace = time.Time{}, nil, "", ""
		actual.IPs, actual.Name, actual.Namespace = nil, "", ""
		require.Equal(t, actual.Listed(), got.Listed(), "the cache agrees with the runtime in the end")
		if len(got.Containers) == 0 {
			got.Containers = nil
		}
		o.end[uid] = got
	}
	return o
}

// delivery returns the delay of each copy of an event.
func delivery(rng *rand.Rand, flags byte) []time.Duration {
	if flags&lossy != 0 && rng.IntN(3) == 0 {
		return nil
	}
	copies := make([]time.Duration, 1+int(flags&doubled/doubled))
	if flags&late != 0 {
		for i := range copies {
			copies[i] = time.Duration(rng.IntN(3000)) * time.Millisecond
		}
	}
	return copies
}

func restart(rt *plegtest.Runtime) {
	down := plegtest.Fault{Err: errTest}
	rt.FailList(down)
	rt.FailInspections(down)
	rt.WithEvents().FailStreams(down)
	rt.WithEvents().BreakStreams()
	time.AfterFunc(2500*time.Millisecond, func() {
		rt.FailList(plegtest.Fault{})
		rt.FailInspections(plegtest.Fault{})
		rt.WithEvents().FailStreams(plegtest.Fault{})
	})
}

func bothModes(t *testing.T, ops []byte, flags byte) {
	var generic, evented outcome
	synctest.Test(t, func(t *testing.T) { generic = history(t, ops, flags, false) })
	synctest.Test(t, func(t *testing.T) { evented = history(t, ops, flags, true) })
	require.Equal(t, generic.pods, evented.pods)
	require.Equal(t, generic.end, evented.end)
	if flags&(lossy|late|restarting) == 0 {
		require.Equal(t, generic.events, evented.events)
	}
}

// E6, P13: generic and evented mode end with the same state, and have the same events if no
// event is lost.
func FuzzModesAgree(f *testing.F) {
	f.Add([]byte{4, 8, 16, 36, 4, 20, 24, 28, 32, 36}, byte(0))
	f.Add([]byte{5, 9, 255, 17, 37, 5, 1, 2, 3, 6, 7, 255, 4}, byte(lossy))
	f.Add([]byte{4, 24, 36, 4, 36, 28, 32, 20, 16}, byte(noisy|doubled|skewed))
	f.Add([]byte{7, 11, 255, 255, 19, 39, 7, 31, 35}, byte(lossy|noisy|backlog))
	f.Add([]byte{0, 20, 4, 20}, byte(0)) // created, then unknown: an inspection without an event
	f.Add([]byte{4, 8, 254, 16, 36, 255, 4, 20, 254, 5}, byte(late|restarting|backlog))
	for seed := range byte(15) {
		ops := make([]byte, 30)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(ops)
		f.Add(ops, ops[0])
	}
	f.Fuzz(func(t *testing.T, ops []byte, flags byte) {
		bothModes(t, ops[:min(len(ops), 60)], flags&allFlags)
	})
}

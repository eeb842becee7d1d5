package pleg

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// model is a runtime whose queries see its state at one moment, anywhere between their start and
// end.
type model struct {
	*script
	rng      *rand.Rand
	actual   map[types.UID]*observed.Pod
	version  map[types.UID]int // grows with every change
	absentAt map[types.UID]int // the last version without the pod
	count    int
	open     []*call
	waits    []*wait
	state    map[Event]phase // of each container and sandbox, according to the events
}

type call struct {
	q    *query
	seen bool
	r    result
}

type wait struct {
	uid     types.UID
	w       *waiter
	version int // at the time of the call
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{script: newScript(t), rng: rand.New(rand.NewPCG(seed, 7)), actual: map[types.UID]*observed.Pod{},
		version: map[types.UID]int{}, absentAt: map[types.UID]int{}, state: map[Event]phase{}}
	m.c.maxSlots = 3
	return m
}

// change changes a pod. Containers never restart, so events have one possible order.
func (m *model) change() {
	uid := types.UID(fmt.Sprint("p", m.rng.IntN(3)))
	m.count++
	m.version[uid]++
	next := &observed.Pod{UID: uid}
	if old := m.actual[uid]; old != nil {
		next.Sandboxes = append(next.Sandboxes, old.Sandboxes...)
		next.Containers = append(next.Containers, old.Containers...)
	}
	next.Name = fmt.Sprint(m.version[uid]) // gives each status its version
	switch n := m.rng.IntN(8); {
	case n == 0:
		next.Sandboxes, next.Containers = nil, nil
	case len(next.Sandboxes) == 0:
		next.Sandboxes = []observed.Sandbox{{ID: fmt.Sprint("s", m.count), State: observed.SandboxReady}}
	case n == 1:
		next.Sandboxes[0].State = observed.SandboxNotReady
	case n <= 4 || len(next.Containers) == 0:
		c := observed.Container{ID: observed.ContainerID{ID: fmt.Sprint("c", m.count)}, Name: "c", State: observed.StateRunning}
		next.Containers = append([]observed.Container{c}, next.Containers...)
	case n <= 6:
		next.Containers[m.rng.IntN(len(next.Containers))].State = observed.StateExited
	default:
		next.Containers = next.Containers[:len(next.Containers)-1]
	}
	m.actual[uid] = next
	if next.Empty() {
		m.absentAt[uid] = m.version[uid]
	}
}

// seeRuntime sets the moment at which an open query sees the runtime.
func (m *model) seeRuntime(c *call) {
	if c.seen {
		return
	}
	c.seen, c.r.query = true, c.q
	if c.q.kind == inspectOne {
		c.r.status = &observed.Pod{UID: c.q.uid}
		if s := m.actual[c.q.uid]; s != nil && !s.Empty() {
			c.r.status = s
		}
		return
	}
	for _, s := range m.actual {
		c.r.pods = append(c.r.pods, s.Listed())
	}
}

func (m *model) finish(i int, fail bool) {
	c := m.open[i]
	m.open = append(m.open[:i], m.open[i+1:]...)
	m.seeRuntime(c)
	if fail {
		c.r = result{query: c.q, err: fmt.Errorf("fault")}
	}
	for _, e := range m.c.apply(c.r, m.now) {
		m.check(e)
	}
	for _, w := range m.waits {
		select {
		case a := <-w.w.answer:
			if a.err != nil {
				continue
			}
			version := m.absentAt[w.uid]
			if !a.status.Empty() {
				_, err := fmt.Sscan(a.status.Name, &version)
				require.NoError(m.t, err)
			}
			require.GreaterOrEqual(m.t, version, w.version, "INV-16: a result is never older than its request")
		default:
		}
	}
	require.LessOrEqual(m.t, len(m.c.slots), 3)
}

// check requires the right order of events of one container or sandbox.
func (m *model) check(e Event) {
	if e.Type == PodSync {
		return
	}
	key := e
	key.Type = ""
	was := m.state[key]
	switch e.Type {
	case Started:
		require.Equal(m.t, absent, was, "%v", e)
		m.state[key] = running
	case Died:
		require.Contains(m.t, []phase{absent, running}, was, "%v", e)
		m.state[key] = exited
	case Removed:
		require.Equal(m.t, exited, was, "%v", e)
		m.state[key] = unknown // for good
	}
}

func (m *model) begin() {
	for {
		q, _ := m.c.next(m.now)
		if q == nil {
			return
		}
		c := &call{q: q}
		if m.rng.IntN(2) == 0 {
			m.seeRuntime(c)
		}
		m.open = append(m.open, c)
	}
}

func (m *model) step(op byte) {
	m.now = m.now.Add(time.Duration(m.rng.IntN(300)) * time.Millisecond)
	uid := types.UID(fmt.Sprint("p", m.rng.IntN(4)))
	switch op % 8 {
	case 0, 1:
		m.change()
	case 2:
		m.c.hint(uid, m.now)
	case 3:
		m.waits = append(m.waits, &wait{uid, m.observe(uid), m.version[uid]})
	case 4:
		if len(m.open) > 0 {
			m.seeRuntime(m.open[m.rng.IntN(len(m.open))])
		}
	case 5, 6:
		if len(m.open) > 0 {
			m.finish(m.rng.IntN(len(m.open)), m.rng.IntN(6) == 0)
		}
	case 7:
		if m.rng.IntN(2) == 0 {
			m.c.requestInspection(m.c.get(uid), Acted, m.now)
			break
		}
		m.c.requestInspection(m.c.get(uid), Expected, m.now.Add(time.Second))
	}
	m.begin()
}

// settle completes all queries and the next lists.
func (m *model) settle() {
	for range 40 {
		m.now = m.now.Add(time.Second)
		m.begin()
		for len(m.open) > 0 {
			m.finish(m.rng.IntN(len(m.open)), false)
			m.begin()
		}
	}
	present := 0
	for uid, s := range m.actual {
		if s.Empty() {
			require.NotContains(m.t, m.c.pods, uid)
			continue
		}
		present++
		want, got := s.Listed(), m.c.pods[uid]
		require.NotNil(m.t, got)
		require.True(m.t, same(&want, &got.record))
		require.True(m.t, same(&want, &got.view))
		require.ElementsMatch(m.t, s.Containers, got.status.Containers)
		require.NoError(m.t, got.err)
		require.Empty(m.t, got.waiters)
		for i := range want.Containers {
			c := &want.Containers[i]
			require.Equal(m.t, containerPhase(c), m.state[Event{UID: uid, ID: c.ID.ID, Container: "c"}], "events and the cache agree")
		}
	}
	require.Len(m.t, m.c.pods, present, "other pods have no record")
	require.Empty(m.t, m.c.stale)
	require.Zero(m.t, m.c.dueQueue.Len())
}

// Overlapping queries that see the runtime at any moment never restore an older state, never
// return an old result, and end with the actual state.
func FuzzCore(f *testing.F) {
	f.Add(uint64(1), []byte{0, 0, 3, 5, 0, 2, 4, 5, 5, 3, 6})
	f.Add(uint64(2), []byte{0, 1, 7, 4, 2, 0, 0, 3, 3, 5, 6, 5, 0, 1})
	for seed := range uint64(60) {
		ops := make([]byte, 300)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(ops)
		f.Add(seed, ops)
	}
	f.Fuzz(func(t *testing.T, seed uint64, ops []byte) {
		m := newModel(t, seed)
		for _, op := range ops[:min(len(ops), 500)] {
			m.step(op)
		}
		m.settle()
	})
}

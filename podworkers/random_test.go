package podworkers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// script plays a random sequence of inputs, one per few bytes, on a machine that
// is watched by a checker.
type script struct {
	rig   *rig
	check *checker
	data  []byte
}

// cast are the UIDs of a script: API pods, and static pods that share two names.
var cast = []struct{ uid, static string }{
	{"a", ""}, {"b", ""}, {"s1", "web"}, {"s2", "web"}, {"s3", "web"}, {"t1", "db"}, {"t2", "db"},
}

func (s *script) next() int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b)
}

func (s *script) pod() *v1.Pod {
	who := cast[s.next()%len(cast)]
	pod := podOf(who.uid)
	if who.static != "" {
		static(who.static)(pod)
	}
	return pod
}

func playScript(t testing.TB, data []byte) {
	s := &script{rig: newShutRig(t), check: newChecker(t), data: data}
	s.rig.m.asks = s.next()%2 == 0
	if s.next()%2 == 0 {
		s.do(func() { s.rig.m.open(s.rig.now) })
	}
	for len(s.data) > 0 {
		s.step()
		s.inspect()
	}
	s.drain()
}

func (s *script) step() {
	switch s.next() % 8 {
	case 0, 1, 2:
		s.send(s.anUpdate())
	case 3, 4, 5:
		s.endOne()
	case 6:
		s.housekeep()
	case 7:
		s.rig.now = s.rig.now.Add(time.Duration(s.next()) * time.Second / 4)
		s.do(func() { s.rig.m.tick(s.rig.now) })
	}
}

func (s *script) anUpdate() Update {
	pod := s.pod()
	u := Update{Type: []UpdateType{UpdateCreate, UpdateUpdate, UpdateSync, UpdateKill}[s.next()%4], Pod: pod}
	how := s.next()
	if how%4 == 0 {
		u.Kill = &KillOptions{Done: make(chan struct{}), Evict: how%8 == 0, Status: func(*v1.PodStatus) {}}
		if how%3 == 0 {
			u.Kill.GracePeriodSeconds = ptr(int64(how%50 - 5))
		}
	}
	switch how % 11 {
	case 1:
		deleting(pod)
	case 2:
		phase(v1.PodFailed)(pod)
	case 3:
		pod.DeletionGracePeriodSeconds = ptr(int64(how % 40))
	case 4:
		kill := u.Kill
		u = orphan(string(pod.UID))
		u.Kill = kill
	}
	return u
}

func (s *script) send(u Update) {
	dead := s.next()%2 == 0
	s.check.updated(u, dead)
	s.do(func() { s.rig.m.update(u, dead, s.rig.now) })
	s.noteFinished(u.uid())
}

// noteFinished lets the checker know of static pods that end without a call.
func (s *script) noteFinished(uid types.UID) {
	if r := s.rig.m.records[uid]; r != nil && r.state == StateFinished {
		require.True(s.rig.t, s.check.pods[uid].terminated || !s.check.pods[uid].called, "INV-8: %s", uid)
		s.check.pods[uid].finished = true
	}
}

func (s *script) endOne() {
	for i, n := s.next(), len(cast); n > 0; i, n = i+1, n-1 {
		uid := types.UID(cast[i%len(cast)].uid)
		if c, ok := s.rig.running[uid]; ok {
			how := s.next()
			res := result{terminal: c.kind == CallSyncPod && how%5 == 0}
			switch how % 7 {
			case 1:
				res.err = errBoom
			case 2:
				res.err = context.Canceled
			case 3:
				res.err = RetryAt(errBoom, s.rig.now.Add(time.Duration(how)*time.Second))
			}
			s.end(c, res)
			return
		}
	}
}

func (s *script) end(c call, res result) {
	delete(s.rig.running, c.uid)
	s.check.over(c.uid, res, s.rig.now.Add(time.Millisecond)) // do moves the clock so far
	s.do(func() { s.rig.m.complete(c.uid, c.gen, res, s.rig.now) })
}

func (s *script) housekeep() {
	var desired []*v1.Pod
	wanted := s.next()
	for i, who := range cast {
		if wanted&(1<<i) != 0 {
			desired = append(desired, podOf(who.uid))
		}
	}
	s.sync(desired)
}

func (s *script) sync(desired []*v1.Pod) {
	in := map[types.UID]bool{}
	for _, pod := range desired {
		in[pod.UID] = true
	}
	before := map[types.UID]State{}
	for uid, r := range s.rig.m.records {
		before[uid] = r.state
		if !in[uid] {
			s.check.unwanted(uid)
		}
	}
	var known map[types.UID]KnownPod
	s.rig.now = s.rig.now.Add(time.Millisecond)
	known = s.rig.m.syncKnownPods(desired, s.rig.now)
	for uid, state := range before {
		if _, ok := known[uid]; !ok {
			require.Contains(s.rig.t, []State{StateFinished, StateWaiting}, state, "only these are forgotten here (INV-9)")
			s.check.forgotten(uid)
		}
	}
	s.do(func() {}) // collect the effects now that the checker knows
}

// do makes an input and tells the checker what came of it.
func (s *script) do(input func()) {
	r := s.rig
	r.now = r.now.Add(time.Millisecond)
	input()
	out := r.m.take()
	for _, done := range out.done {
		s.check.closed(done)
	}
	for _, c := range out.start {
		s.check.began(c.uid, c.kind, c.work)
		r.running[c.uid] = c
	}
}

// inspect checks what holds inside the machine after every input.
func (s *script) inspect() {
	m, t := s.rig.m, s.rig.t
	for uid, r := range m.records {
		_, runs := s.rig.running[uid]
		require.Equal(t, runs, r.call != CallNone)
		require.False(t, runs && r.dueAt != notQueued, "%s runs and is due", uid)
		if !runs && r.ready && m.isOpen {
			require.Equal(t, StateWaiting, r.state, "%s is ready but does not run", uid)
			require.False(t, m.names.mayStart(r.fullName(), uid), "%s has its turn but does not run", uid)
		}
		if !runs && !r.ready && m.isOpen && r.state != StateFinished {
			require.NotEqual(t, notQueued, r.dueAt, "INV-17: nothing will ever wake %s", uid)
		}
		require.True(t, r.state < StateTerminated || len(r.done) == 0, "INV-14: %s", uid)
		if r.state == StateWaiting || r.state == StateFinished {
			require.Nil(t, m.podState(uid).Pod, "INV-12")
		}
	}
	for i, r := range m.due {
		require.Equal(t, i, r.dueAt)
		require.False(t, r.due.Before(m.due[(i-min(i, 1))/2].due), "the heap's order")
	}
}

// drain lets everything come to its end (INV-17, INV-18).
func (s *script) drain() {
	m, t := s.rig.m, s.rig.t
	if !m.isOpen {
		s.do(func() { m.open(s.rig.now) })
	}
	for round := 0; len(m.records) > 0; round++ {
		require.Less(t, round, 100, "INV-17: pods do not come to an end")
		s.sync(nil)
		s.inspect()
		for _, who := range cast {
			if c, ok := s.rig.running[types.UID(who.uid)]; ok {
				s.end(c, result{})
				s.inspect()
			}
		}
	}
	require.Empty(t, m.names)
	require.Empty(t, m.due)
	require.Empty(t, s.rig.running)
	s.check.settled()
}

// INV-1, 3 to 9, 11 to 14, 16 to 18 over random sequences of inputs.
func TestRandomScripts(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 200
	}
	for seed := range n {
		data := make([]byte, 50+seed%900)
		source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
		_, _ = source.Read(data)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { playScript(t, data) })
		if !ok {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 1, 3, 0, 0, 6, 0, 3, 0, 0})
	f.Add([]byte{1, 1, 0, 2, 0, 1, 0, 0, 3, 0, 1, 0, 0, 3, 3, 4, 0, 7, 200, 6, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip()
		}
		playScript(t, data)
	})
}

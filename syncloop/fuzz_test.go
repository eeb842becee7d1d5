package syncloop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// failingParts is a handler, a source of pods and a source of events that fail at random. It records its
// calls.
type failingParts struct {
	mu        sync.Mutex
	down      bool
	podsPanic bool // Pods panics
	slow      time.Duration
	failing   map[types.UID]bool
	running   int
	overlaps  int
	version   int
	emitted   map[types.UID]int // version at the last event
	synced    map[types.UID]int // version at the beginning of the last sync
	passed    map[types.UID]string
	sets      map[string]map[types.UID]*v1.Pod
	handled   map[string]int
	requested map[string]int
	cleaned   int
	fail      chan error // makes the event source fail
}

func newFailingParts() *failingParts {
	return &failingParts{
		failing: map[types.UID]bool{}, emitted: map[types.UID]int{}, synced: map[types.UID]int{},
		passed: map[types.UID]string{}, sets: map[string]map[types.UID]*v1.Pod{}, handled: map[string]int{}, requested: map[string]int{}, fail: make(chan error),
	}
}

// call records one call of the handler.
func (c *failingParts) call(uids []types.UID, apply func(uid types.UID)) {
	c.mu.Lock()
	if c.running++; c.running > 1 {
		c.overlaps++
	}
	slow := c.slow
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}()
	for _, uid := range uids {
		c.mu.Lock()
		bad := c.failing[uid]
		if !bad {
			apply(uid)
		}
		c.mu.Unlock()
		if bad {
			panic(fmt.Sprint("bad pod ", uid))
		}
	}
	time.Sleep(slow)
}

func (c *failingParts) pass(pods []*v1.Pod) {
	versions := map[types.UID]string{}
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
		versions[pod.UID] = pod.ResourceVersion
	}
	c.call(uids, func(uid types.UID) { c.passed[uid] = versions[uid] })
}

func (c *failingParts) HandlePodAdditions(_ context.Context, pods []*v1.Pod) { c.pass(pods) }
func (c *failingParts) HandlePodUpdates(_ context.Context, pods []*v1.Pod)   { c.pass(pods) }
func (c *failingParts) HandlePodReconcile(_ context.Context, pods []*v1.Pod) { c.pass(pods) }

func (c *failingParts) HandlePodRemoves(_ context.Context, pods []*v1.Pod) {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	c.call(uids, func(uid types.UID) { delete(c.passed, uid) })
}

func (c *failingParts) HandlePodSyncs(_ context.Context, syncs []Sync) {
	var uids []types.UID
	for _, s := range syncs {
		uids = append(uids, s.UID)
	}
	c.call(uids, func(uid types.UID) { c.synced[uid] = c.emitted[uid] })
}

func (c *failingParts) HandlePodCleanups(context.Context) error {
	c.call([]types.UID{"housekeeping"}, func(types.UID) { c.cleaned++ })
	return errors.New("a leftover remains")
}

func (c *failingParts) Run(ctx context.Context, _ func(Event)) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.fail:
		panic(err)
	}
}

func (c *failingParts) Pods(source string) ([]*v1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.podsPanic {
		panic("cannot read pods")
	}
	set, delivered := c.sets[source]
	return slices.Collect(maps.Values(set)), delivered
}

func (c *failingParts) Handled(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled[source] = c.requested[source]
}

func (c *failingParts) healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errors.New("down")
	}
	return nil
}

// step performs the action that two bytes encode.
func (c *failingParts) step(l *Loop, action, which byte) {
	uid := types.UID(fmt.Sprint(which % 5))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	switch action % 10 {
	case 0, 1, 2:
		c.emitted[uid] = c.version
		l.Emit(Event{Kind: PodDirty + Kind(which%3)*3, UID: uid})
		if !(PodDirty + Kind(which%3)*3).syncs() {
			c.emitted[uid] = c.synced[uid]
		}
	case 3, 4, 5:
		source, op := string("ababx"[which%5]), Op(1+which%7%5)
		if source == "x" { // a pod in two sources
			source = string("ab"[which/5%2])
		}
		c.put(source, op, uid)
		c.requested[source] = c.version
		l.Emit(Event{Kind: PodsChanged, Source: source})
	case 6:
		c.down, c.podsPanic = which%2 == 0, which%3 == 0
	case 7:
		c.failing[uid] = !c.failing[uid]
		c.failing["housekeeping"] = which > 100
	case 8:
		c.slow = time.Duration(which%4) * 100 * time.Millisecond
	case 9:
		c.mu.Unlock()
		if which%4 == 0 {
			select {
			case c.fail <- errors.New("source failed"):
			default:
			}
		}
		time.Sleep(time.Duration(which) * 20 * time.Millisecond)
		c.mu.Lock()
	}
}

// put makes a newer set of a source, in which one pod is removed, restored, renamed or changed.
func (c *failingParts) put(source string, op Op, uid types.UID) {
	if c.sets[source] == nil {
		c.sets[source] = map[types.UID]*v1.Pod{}
	}
	pod := testPod("p"+string(uid), uid, version(fmt.Sprint(c.version)))
	if old := c.sets[source][uid]; old != nil {
		pod = old.DeepCopy()
	}
	c.sets[source][uid] = pod
	pod.ResourceVersion = fmt.Sprint(c.version)
	switch op {
	case OpRemove:
		delete(c.sets[source], uid)
	case OpAdd:
		pod.Name += "x"
	case OpReconcile:
		pod.Status.Message = pod.ResourceVersion
	default:
		pod.Spec.Hostname = pod.ResourceVersion
	}
}

func (c *failingParts) stopFailures() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.podsPanic, c.slow, c.failing, c.cleaned = false, false, 0, nil, 0
}

// run performs the actions of data, heals all parts, and checks that no event was lost.
func (c *failingParts) run(t *testing.T, data []byte) {
	l, err := New(Config{Handler: c, Pods: c, Health: c.healthy, Sources: map[string]EventSource{"failing": c}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for ; len(data) >= 2; data = data[2:] {
		c.step(l, data[0], data[1])
	}
	c.stopFailures()
	time.Sleep(time.Minute) // the longest pause is 30 s
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, c.emitted, c.synced, "syncs")
	put := map[types.UID]string{}
	for _, set := range c.sets {
		for uid, pod := range set {
			put[uid] = pod.ResourceVersion
		}
	}
	// Pods of two sources are excluded: their order is undefined.
	maps.DeleteFunc(put, func(uid types.UID, _ string) bool { return uid == "4" })
	maps.DeleteFunc(c.passed, func(uid types.UID, _ string) bool { return uid == "4" })
	require.Equal(t, put, c.passed, "pods")
	require.Equal(t, c.requested, c.handled, "sources")
	require.Zero(t, c.overlaps, "one call at a time")
	require.Greater(t, c.cleaned, 10)
	st := l.Status()
	require.Zero(t, st.Stuck+st.WaitingPods+st.WaitingSources)
	require.NoError(t, l.CheckHealth())
	stop()
	require.NoError(t, <-done)
}

// FuzzLoop makes handlers, sources and health checks fail at random. Each dirty pod must be
// handled after its last event, one call at a time.
func FuzzLoop(f *testing.F) {
	f.Add([]byte{0, 1, 3, 1, 9, 100})
	f.Add([]byte{7, 1, 3, 1, 3, 6, 3, 0, 0, 1, 9, 200, 3, 11})
	f.Add([]byte{6, 0, 0, 1, 3, 2, 9, 250, 6, 1, 8, 3, 0, 1, 0, 2})
	f.Add([]byte{8, 3, 0, 1, 9, 4, 0, 1, 7, 101, 9, 250})
	for seed := range 200 {
		random := make([]byte, seed/2*2)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(random)
		f.Add(random)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 400 {
			return
		}
		synctest.Test(t, func(t *testing.T) { newFailingParts().run(t, data) })
	})
}

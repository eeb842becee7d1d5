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

// chaos is a handler, a source of pods and a source of events that fail at random. It records its
// calls.
type chaos struct {
	mu       sync.Mutex
	down     bool
	weak     bool // Pods panics
	slow     time.Duration
	bad      map[types.UID]bool
	inside   int
	overlaps int
	version  int
	emitted  map[types.UID]int // version at the last event
	synced   map[types.UID]int // version at the beginning of the last sync
	told     map[types.UID]string
	sets     map[string]map[types.UID]*v1.Pod
	handled  map[string]int
	asked    map[string]int
	cleaned  int
	fail     chan error // makes the event source fail
}

func newChaos() *chaos {
	return &chaos{
		bad: map[types.UID]bool{}, emitted: map[types.UID]int{}, synced: map[types.UID]int{},
		told: map[types.UID]string{}, sets: map[string]map[types.UID]*v1.Pod{}, handled: map[string]int{}, asked: map[string]int{}, fail: make(chan error),
	}
}

// call records one call of the handler.
func (c *chaos) call(uids []types.UID, note func(uid types.UID)) {
	c.mu.Lock()
	if c.inside++; c.inside > 1 {
		c.overlaps++
	}
	slow := c.slow
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.inside--
		c.mu.Unlock()
	}()
	for _, uid := range uids {
		c.mu.Lock()
		bad := c.bad[uid]
		if !bad {
			note(uid)
		}
		c.mu.Unlock()
		if bad {
			panic(fmt.Sprint("bad pod ", uid))
		}
	}
	time.Sleep(slow)
}

func (c *chaos) tell(pods []*v1.Pod) {
	versions := map[types.UID]string{}
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
		versions[pod.UID] = pod.ResourceVersion
	}
	c.call(uids, func(uid types.UID) { c.told[uid] = versions[uid] })
}

func (c *chaos) HandlePodAdditions(_ context.Context, pods []*v1.Pod) { c.tell(pods) }
func (c *chaos) HandlePodUpdates(_ context.Context, pods []*v1.Pod)   { c.tell(pods) }
func (c *chaos) HandlePodReconcile(_ context.Context, pods []*v1.Pod) { c.tell(pods) }

func (c *chaos) HandlePodRemoves(_ context.Context, pods []*v1.Pod) {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	c.call(uids, func(uid types.UID) { delete(c.told, uid) })
}

func (c *chaos) HandlePodSyncs(_ context.Context, syncs []Sync) {
	var uids []types.UID
	for _, s := range syncs {
		uids = append(uids, s.UID)
	}
	c.call(uids, func(uid types.UID) { c.synced[uid] = c.emitted[uid] })
}

func (c *chaos) HandlePodCleanups(context.Context) error {
	c.call([]types.UID{"housekeeping"}, func(types.UID) { c.cleaned++ })
	return errors.New("something is always left")
}

func (c *chaos) Run(ctx context.Context, _ func(Event)) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.fail:
		panic(err)
	}
}

func (c *chaos) Pods(source string) ([]*v1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.weak {
		panic("no pods today")
	}
	set, delivered := c.sets[source]
	return slices.Collect(maps.Values(set)), delivered
}

func (c *chaos) Handled(source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled[source] = c.asked[source]
}

func (c *chaos) healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errors.New("down")
	}
	return nil
}

// step performs the action that two bytes encode.
func (c *chaos) step(l *Loop, what, which byte) {
	uid := types.UID(fmt.Sprint(which % 5))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	switch what % 10 {
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
		c.asked[source] = c.version
		l.Emit(Event{Kind: PodsChanged, Source: source})
	case 6:
		c.down, c.weak = which%2 == 0, which%3 == 0
	case 7:
		c.bad[uid] = !c.bad[uid]
		c.bad["housekeeping"] = which > 100
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
func (c *chaos) put(source string, op Op, uid types.UID) {
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

func (c *chaos) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.weak, c.slow, c.bad, c.cleaned = false, false, 0, nil, 0
}

// run performs the actions of data, heals all parts, and checks that no event was lost.
func (c *chaos) run(t *testing.T, data []byte) {
	l, err := New(Config{Handler: c, Pods: c, Health: c.healthy, Sources: map[string]EventSource{"failing": c}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for ; len(data) >= 2; data = data[2:] {
		c.step(l, data[0], data[1])
	}
	c.heal()
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
	maps.DeleteFunc(c.told, func(uid types.UID, _ string) bool { return uid == "4" })
	require.Equal(t, put, c.told, "pods")
	require.Equal(t, c.asked, c.handled, "sources")
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
		synctest.Test(t, func(t *testing.T) { newChaos().run(t, data) })
	})
}

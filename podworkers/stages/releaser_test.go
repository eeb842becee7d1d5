package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// node is a node with one stage and pods with leftovers.
type node struct {
	*Releaser
	list   *List
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	log     bytes.Buffer
	held    map[types.UID]bool
	desired map[types.UID]bool
	taken   map[types.UID]bool
	fail    error
	listErr error
	hang    map[types.UID]chan struct{} // a release ignores its context until this is closed
	peak    int
	busy    int
}

func newNode(t *testing.T, change func(*ReleaserConfig), uids ...types.UID) *node {
	t.Helper()
	n := &node{held: map[types.UID]bool{}, desired: map[types.UID]bool{}, taken: map[types.UID]bool{}, hang: map[types.UID]chan struct{}{}}
	for _, uid := range uids {
		n.held[uid] = true
	}
	n.list = newList(t, Config{Stages: []Entry{{
		Name: "folder", Release: Gone, Timeout: 10 * time.Second, Stage: &funcs{release: n.release, leftovers: n.leftovers},
	}}})
	cfg := ReleaserConfig{List: n.list, Try: n.try, Gone: n.gone, Logger: slog.New(slog.NewTextHandler(n, nil))}
	if change != nil {
		change(&cfg)
	}
	var err error
	n.Releaser, err = NewReleaser(cfg)
	require.NoError(t, err)
	return n
}

// onNode runs a test on a node in a bubble. It requires that the Releaser ends without an error,
// unless the test has stopped it.
func onNode(t *testing.T, change func(*ReleaserConfig), test func(t *testing.T, n *node), uids ...types.UID) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, change, uids...)
		test(t, n)
		if n.cancel != nil {
			require.NoError(t, n.stop())
		}
	})
}

func (n *node) run(t *testing.T) {
	t.Helper()
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(t.Context())
	n.ended = make(chan error, 1)
	go func() { n.ended <- n.Run(ctx) }()
	synctest.Wait()
}

func (n *node) stop() error {
	n.cancel()
	n.cancel = nil
	return <-n.ended
}

func (n *node) release(_ context.Context, uid types.UID) error {
	n.mu.Lock()
	n.busy++
	n.peak = max(n.peak, n.busy)
	hang, fail := n.hang[uid], n.fail
	n.mu.Unlock()
	time.Sleep(time.Millisecond)
	if hang != nil {
		<-hang
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy--
	if fail == nil {
		delete(n.held, uid)
	}
	return fail
}

func (n *node) leftovers(context.Context) ([]types.UID, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.held)), n.listErr
}

func (n *node) try(uid types.UID) (func(), bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken[uid] {
		return nil, false
	}
	n.taken[uid] = true
	return func() { n.mu.Lock(); defer n.mu.Unlock(); delete(n.taken, uid) }, true
}

func (n *node) gone(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.desired[uid]
}

func (n *node) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(line)
}

func (n *node) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

func (n *node) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *node) left() []types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.held))
}

func (n *node) wake() {
	n.Wake()
	time.Sleep(100 * time.Millisecond)
}

func TestReleaserConfig(t *testing.T) {
	l := newList(t, Config{})
	try := func(types.UID) (func(), bool) { return nil, false }
	gone := func(types.UID) bool { return false }
	for field, cfg := range map[string]ReleaserConfig{
		"List is required":            {Try: try, Gone: gone},
		"Try is required":             {List: l, Gone: gone},
		"Gone is required":            {List: l, Try: try},
		"Rest is negative":            {List: l, Try: try, Gone: gone, Rest: -1},
		"ShutdownTimeout is negative": {List: l, Try: try, Gone: gone, ShutdownTimeout: -1},
	} {
		_, err := NewReleaser(cfg)
		require.ErrorContains(t, err, "ReleaserConfig."+field)
	}
}

// Without ReleaserConfig.Release, a pod is released by its list: first the stages with Stopped,
// and after their success the stages with Gone.
func TestReleaserReleasesInOrder(t *testing.T) {
	c := &calls{}
	stopped := traced(c, "stopped")
	n := newNode(t, func(cfg *ReleaserConfig) {
		cfg.Release = nil
		cfg.List = newList(t, Config{Stages: []Entry{{Name: "gone", Release: Gone, Stage: traced(c, "gone")}, {Name: "stopped", Release: Stopped, Stage: stopped}}})
	})
	require.NoError(t, n.cfg.Release(t.Context(), "1"))
	require.Equal(t, []string{"release stopped 1", "release gone 1"}, c.take())
	failed := errors.New("busy")
	stopped.release = func(context.Context, types.UID) error { return failed }
	require.ErrorIs(t, n.cfg.Release(t.Context(), "1"), failed)
	require.Empty(t, c.take())
}

// Pods without an owner are released. A desired or locked pod is not released until that
// changes.
func TestReleasesPodsWithoutOwner(t *testing.T) {
	onNode(t, nil, func(t *testing.T, n *node) {
		n.desired["desired"], n.taken["busy"] = true, true
		n.run(t)
		time.Sleep(time.Second)
		require.Equal(t, []types.UID{"busy", "desired"}, n.left())
		left := n.Leftovers()
		require.Equal(t, []bool{true, true}, []bool{left[0].Owned, left[1].Owned})
		require.Equal(t, []string{"folder"}, left[0].Stages)

		n.set(func() { delete(n.taken, "busy"); delete(n.desired, "desired") })
		time.Sleep(time.Hour)
		require.Len(t, n.left(), 2, "no Wake since")
		n.wake()
		require.Empty(t, n.left())
		require.Empty(t, n.Leftovers())
		require.Empty(t, n.taken, "all locks are released")
		require.ErrorIs(t, n.Run(t.Context()), ErrAlreadyRun)
		require.NoError(t, n.stop())
		require.Equal(t, 3, strings.Count(n.logged(), "leftovers of a pod released"))
	}, "gone", "desired", "busy")
}

// A failure is logged when it changes, and retried after Rest without a Wake.
func TestFailuresAreTriedAgain(t *testing.T) {
	onNode(t, nil, func(t *testing.T, n *node) {
		n.fail = errBroken
		begun := time.Now()
		n.run(t)
		for range 100 {
			n.wake()
		}
		require.Equal(t, 1, strings.Count(n.logged(), "level=ERROR"))
		left := n.Leftovers()[0]
		require.ErrorIs(t, left.LastError, errBroken)
		require.Equal(t, begun, left.Since)
		require.Equal(t, left.LastErrorAt.Add(time.Second), left.NextRetry)
		n.set(func() { n.fail = errors.New("another one") })
		time.Sleep(2 * time.Second)
		require.Equal(t, 2, strings.Count(n.logged(), "level=ERROR"))
		n.set(func() { n.fail = nil })
		time.Sleep(2 * time.Second)
		require.Empty(t, n.left())
	}, "1")
}

func TestPodsAreReleasedInParallel(t *testing.T) {
	var uids []types.UID
	for i := range 100 {
		uids = append(uids, types.UID(fmt.Sprintf("%03d", i)))
	}
	onNode(t, func(c *ReleaserConfig) { c.Logger = nil }, func(t *testing.T, n *node) {
		n.run(t)
		time.Sleep(time.Second)
		require.Empty(t, n.left())
		require.Equal(t, 8, n.peak)
	}, uids...)
}

// Hanging releases alternate with others, and Run's error lists them.
func TestHungReleaseDoesNotDelayOthers(t *testing.T) {
	onNode(t, nil, func(t *testing.T, n *node) {
		n.queue.parallel = 1
		hang := make(chan struct{})
		n.hang["1"] = hang
		n.run(t)
		time.Sleep(11500 * time.Millisecond) // the next attempt is at 12 s
		require.Equal(t, []types.UID{"1"}, n.left())
		require.ErrorIs(t, n.Leftovers()[0].LastError, ErrUnresponsive)

		begun := time.Now()
		err := n.stop()
		require.ErrorIs(t, err, ErrShutdownTimeout)
		require.ErrorContains(t, err, "releasing folder of pod 1")
		require.Equal(t, 10*time.Second, time.Since(begun))
		close(hang)
		require.NoError(t, n.list.Wait(time.Second))
	}, "1", "2", "3")
}

// A release that is cut off by the end of the agent is no failure.
func TestReleaseThatEndsWithTheAgent(t *testing.T) {
	onNode(t, nil, func(t *testing.T, n *node) {
		hang := make(chan struct{})
		n.hang["1"] = hang
		n.run(t)
		require.ErrorIs(t, n.stop(), ErrShutdownTimeout)
		require.Empty(t, n.logged())
		close(hang)
		require.NoError(t, n.list.Wait(time.Second))
	}, "1")
}

// A listing may end during the call of Try and report that the pod has no leftovers. A lock that
// Try took is then released.
func TestListingDuringTry(t *testing.T) {
	for _, given := range []bool{true, false} {
		var asked, answer, listing chan struct{}
		turns, slow := 0, false
		onNode(t, func(c *ReleaserConfig) {
			asked, answer, listing = make(chan struct{}), make(chan struct{}), make(chan struct{})
			c.List = only(t, &funcs{leftovers: func(context.Context) ([]types.UID, error) {
				if !slow {
					return []types.UID{"1"}, nil
				}
				<-listing
				return nil, nil
			}})
			c.Release = func(context.Context, types.UID) error { return errBroken }
			c.Gone = func(types.UID) bool { return true }
			c.Try = func(types.UID) (func(), bool) {
				if slow {
					close(asked)
					<-answer
					if !given {
						return nil, false
					}
				}
				turns++
				return func() { turns-- }, true
			}
		}, func(t *testing.T, n *node) {
			n.run(t) // fails at once
			slow = true
			n.wake()
			<-asked // Rest has passed, the listing runs
			close(listing)
			synctest.Wait()
			require.Empty(t, n.Leftovers())
			close(answer)
			synctest.Wait()
			require.Zero(t, turns)
		})
	}
}

func TestListingThatFails(t *testing.T) {
	onNode(t, nil, func(t *testing.T, n *node) {
		n.listErr = errBroken
		n.run(t)
		n.wake()
		n.wake()
		require.Empty(t, n.left(), "listed leftovers are released")
		require.Equal(t, 1, strings.Count(n.logged(), "listing leftovers failed"))
	}, "1")
}

// Pods of ReleaserConfig.Others are released as well.
func TestOthers(t *testing.T) {
	var mu sync.Mutex // pods are released in parallel
	containers := map[types.UID]bool{"1": true, "2": true}
	others := func() []types.UID {
		mu.Lock()
		defer mu.Unlock()
		return slices.Collect(maps.Keys(containers))
	}
	onNode(t, func(c *ReleaserConfig) {
		list := c.List
		c.Others = others
		c.Release = func(ctx context.Context, uid types.UID) error {
			mu.Lock()
			delete(containers, uid)
			mu.Unlock()
			return list.Release(ctx, uid, Gone)
		}
	}, func(t *testing.T, n *node) {
		n.run(t)
		time.Sleep(time.Second)
		require.Empty(t, others())
		require.Empty(t, n.left())
	}, "1")
}

func TestCallbackPanics(t *testing.T) {
	onNode(t, func(c *ReleaserConfig) {
		gone := c.Gone
		c.Gone = func(uid types.UID) bool {
			if uid == "1" {
				panic("who?")
			}
			return gone(uid)
		}
		c.Others = func() []types.UID { panic("others") }
	}, func(t *testing.T, n *node) {
		n.run(t)
		time.Sleep(time.Second)
		require.Equal(t, []types.UID{"1"}, n.left())
		require.Empty(t, n.taken)
		require.NoError(t, n.stop())
		require.Contains(t, n.logged(), "who?")
	}, "1", "2")
}

// One listing runs at a time. Any number of Wakes during it lead to one more listing. A listing
// that ends with the agent is no failure.
func TestWokenWhileListing(t *testing.T) {
	var stops chan struct{}
	looks := 0
	onNode(t, func(c *ReleaserConfig) {
		stops = make(chan struct{})
		c.List = only(t, &funcs{leftovers: func(ctx context.Context) ([]types.UID, error) {
			looks++
			select {
			case <-stops:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}})
		c.Others = func() []types.UID { return []types.UID{""} }
	}, func(t *testing.T, n *node) {
		n.run(t)
		for range 3 {
			n.Wake()
			synctest.Wait()
			require.Equal(t, 1, looks)
		}
		stops <- struct{}{}
		synctest.Wait()
		require.Equal(t, 2, looks)
		stops <- struct{}{}
		synctest.Wait()
		require.Equal(t, 2, looks)
		require.Empty(t, n.Leftovers(), "a pod without a UID is none")
		n.Wake()
		synctest.Wait()
		require.Equal(t, 3, looks)
		require.NoError(t, n.stop())
		require.Empty(t, n.logged())
	})
}

package stages

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func podOf(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + string(uid), UID: uid}}
}

type calls struct {
	mu  sync.Mutex
	log []string
}

func (c *calls) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, what)
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log = nil
	return log
}

// funcs is a stage made of functions. A nil function succeeds without effect.
type funcs struct {
	prepare   func(context.Context, types.UID) error
	release   func(context.Context, types.UID) error
	leftovers func(context.Context) ([]types.UID, error)
}

func (f *funcs) Prepare(ctx context.Context, pod *v1.Pod) error {
	if f.prepare == nil {
		return nil
	}
	return f.prepare(ctx, pod.UID)
}

func (f *funcs) Release(ctx context.Context, uid types.UID) error {
	if f.release == nil {
		return nil
	}
	return f.release(ctx, uid)
}

func (f *funcs) Leftovers(ctx context.Context) ([]types.UID, error) {
	if f.leftovers == nil {
		return nil, nil
	}
	return f.leftovers(ctx)
}

func traced(c *calls, name string) *funcs {
	note := func(what string) func(context.Context, types.UID) error {
		return func(_ context.Context, uid types.UID) error { c.add(what + " " + name + " " + string(uid)); return nil }
	}
	return &funcs{prepare: note("prepare"), release: note("release")}
}

func newList(t *testing.T, cfg Config) *List {
	t.Helper()
	l, err := New(cfg)
	require.NoError(t, err)
	return l
}

// only returns a list with one stage.
func only(t *testing.T, f *funcs) *List {
	t.Helper()
	return newList(t, Config{Stages: []Entry{{Name: "it", Release: Stopped, Stage: f}}})
}

// hung returns a function that ignores its context until free is called.
func hung() (f func(context.Context, types.UID) error, free func()) {
	ended := make(chan struct{})
	return func(context.Context, types.UID) error { <-ended; return nil }, sync.OnceFunc(func() { close(ended) })
}

package objects

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// firstReadTimeout bounds the wait for the first response about an object.
const firstReadTimeout = time.Second

// pool watches requested objects of a kind, one by one.
type pool[T apiserver.Object, L runtime.Object] struct {
	of        *Objects
	kind      string
	resource  apiserver.Resource[T, L]
	immutable func(T) *bool

	mu    sync.Mutex
	items map[types.NamespacedName]*item[T, L]
}

type item[T apiserver.Object, L runtime.Object] struct {
	*apiserver.Feed[T, L]
	stop func()
	// missed is set after a request that failed. The first response is then reported as a change.
	missed atomic.Bool
	seen   bool // used by changed alone: there was a response
}

func newPool[T apiserver.Object, L runtime.Object](o *Objects, kind string, r apiserver.Resource[T, L], immutable func(T) *bool) *pool[T, L] {
	return &pool[T, L]{of: o, kind: kind, resource: r, immutable: immutable, items: map[types.NamespacedName]*item[T, L]{}}
}

// get returns an object, after a short wait if it was not watched before.
func (p *pool[T, L]) get(ctx context.Context, namespace, name string) (none T, err error) {
	i, err := p.item(types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return none, err
	}
	if err := i.await(ctx); err != nil {
		return none, fmt.Errorf("%s %s/%s: %w", p.kind, namespace, name, err)
	}
	if obj, ok := i.Get(namespace, name); ok {
		return obj, nil
	}
	return none, objects.NotFound(volume.Object{Kind: p.kind, Namespace: namespace, Name: name})
}

// await waits for the first response about an object.
func (i *item[T, L]) await(ctx context.Context) error {
	err := await(ctx, i.Synced(), i.Err)
	if err == nil {
		return nil
	}
	i.missed.Store(true)
	if i.HasSynced() {
		return nil // the response came before missed was set
	}
	return err
}

// await waits for a first response, and otherwise returns the reason of the delay.
func await(ctx context.Context, answered <-chan struct{}, why func() error) error {
	select {
	case <-answered:
		return nil
	default:
	}
	timer := time.NewTimer(firstReadTimeout)
	defer timer.Stop()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return run.EndOf(ctx)
	case <-timer.C:
		return fmt.Errorf("not read yet: %w", why())
	}
}

// item returns the watch of an object, and starts it if needed.
func (p *pool[T, L]) item(name types.NamespacedName) (*item[T, L], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.items[name]; i != nil {
		return i, nil
	}
	i := &item[T, L]{}
	var err error
	i.Feed, err = apiserver.NewFeed(apiserver.FeedConfig[T, L]{
		Resource:      p.resource.In(name.Namespace),
		FieldSelector: "metadata.name=" + name.Name,
		OnChange:      func([]types.NamespacedName) { p.changed(i, name) },
		Logger:        p.of.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	i.stop = p.of.watches.start(p.kind+" "+name.String(), i.Run)
	p.items[name] = i
	return i, nil
}

// changed reports a change of an object, and ends the watch of an immutable one.
func (p *pool[T, L]) changed(i *item[T, L], name types.NamespacedName) {
	if obj, ok := i.Get(name.Namespace, name.Name); ok {
		if immutable := p.immutable(obj); immutable != nil && *immutable {
			p.mu.Lock() // item has then set i.stop
			i.stop()
			p.mu.Unlock()
		}
	}
	first := !i.seen
	i.seen = true
	if first && !i.missed.Load() {
		return // the waiting request returns it
	}
	p.of.cfg.OnChange([]volume.Object{{Kind: p.kind, Namespace: name.Namespace, Name: name.Name}})
}

func (p *pool[T, L]) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items) == 0
}

func (p *pool[T, L]) keep(wanted map[volume.Object]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, i := range p.items {
		if !wanted[volume.Object{Kind: p.kind, Namespace: name.Namespace, Name: name.Name}] {
			i.stop()
			delete(p.items, name)
		}
	}
}

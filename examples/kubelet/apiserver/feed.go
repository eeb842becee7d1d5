package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

// FeedConfig configures a Feed. Resource is required.
type FeedConfig[T Object, L runtime.Object] struct {
	// Resource is what is listed and watched.
	Resource Resource[T, L]
	// FieldSelector leaves others out, such as "spec.nodeName=worker-1".
	FieldSelector string
	// Trim drops what nobody reads of an object that has just come. The managed fields,
	// which are half of many an object, are dropped anyway. May be nil.
	Trim func(T)
	// OnChange is told of objects that have changed, come or gone, by whoever runs Run.
	// The first list is a change as well, also one without any object. It must not block.
	// May be nil.
	OnChange func([]types.NamespacedName)
	// MaxPause is the longest pause between two attempts to reach the server; the first is
	// 100 ms, and each is up to half as long again by chance. Zero means 15 s.
	MaxPause time.Duration
	// Logger is told when the server does not answer, and when it does again; nil discards.
	Logger *slog.Logger
}

// Feed keeps a copy of what the server has: it lists once and watches then, and begins
// anew where it was when a watch ends. Errors never empty it: what was there last stays.
// Use NewFeed. It is safe for concurrent use; objects that it returns are not to be
// changed.
type Feed[T Object, L runtime.Object] struct {
	cfg     FeedConfig[T, L]
	limiter *loglimit.Limiter
	synced  chan struct{}

	mu      sync.Mutex
	objects map[types.NamespacedName]T
	err     error
	running bool
}

// errNotSynced is the state of a Feed before anything was heard of the server.
var errNotSynced = errors.New("the API server has not been reached yet")

// NewFeed checks the configuration. The Feed is empty until Run.
func NewFeed[T Object, L runtime.Object](cfg FeedConfig[T, L]) (*Feed[T, L], error) {
	f := fields.Of("apiserver: FeedConfig")
	f.Required("Resource", cfg.Resource.client)
	fields.Number(f, "MaxPause", &cfg.MaxPause, 15*time.Second)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Feed[T, L]{
		cfg: cfg, limiter: loglimit.New(5 * time.Minute), synced: make(chan struct{}),
		objects: map[types.NamespacedName]T{}, err: errNotSynced,
	}, nil
}

const (
	// firstPause is the pause before the second attempt.
	firstPause = 100 * time.Millisecond
	// jitter is by how much of it a pause is longer at most, by chance.
	jitter = 0.5
	// wasWell is how long an attempt lasted that was none of a bad time.
	wasWell = 2 * time.Minute
)

// Run lists and watches until ctx ends. It may run again after it has returned, and goes
// on with what it has.
func (f *Feed[T, L]) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.running {
		f.mu.Unlock()
		return ErrAlreadyRun
	}
	f.running = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running = false
		f.mu.Unlock()
	}()
	silent := logr.Discard()
	r := cache.NewReflectorWithOptions(f.source(), f.cfg.Resource.kind.object(), store[T, L]{f}, cache.ReflectorOptions{
		Name: f.cfg.Resource.kind.plural, Logger: &silent,
		Backoff: &wait.Backoff{Duration: firstPause, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: f.cfg.MaxPause},
	})
	ctx = logr.NewContext(ctx, silent)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, f.cfg.MaxPause) {
		began := time.Now()
		// Not the reflector's own loop, which hands errors to handlers of the process. Those
		// that count are noted by list and watch.
		_ = r.ListAndWatchWithContext(ctx)
		if time.Since(began) > wasWell {
			pause = firstPause
		}
		run.Sleep(ctx, wait.Jitter(pause, jitter))
	}
	return nil
}

// listWatch is a source that is listed first: a reflector that has the server stream the
// first list, and is refused, waits for its next attempt even when its context has ended.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what a reflector asks.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (f *Feed[T, L]) source() listWatch {
	return listWatch{&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}}
}

func (f *Feed[T, L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = f.cfg.FieldSelector
	l, err := f.cfg.Resource.List(ctx, o)
	f.answered(ctx, err)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (f *Feed[T, L]) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.FieldSelector = f.cfg.FieldSelector
	w, err := f.cfg.Resource.Watch(ctx, o)
	f.answered(ctx, err)
	return w, err
}

// answered notes how an attempt has ended.
func (f *Feed[T, L]) answered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	err = withoutURL(err)
	f.mu.Lock()
	before := f.err
	f.err = err
	f.mu.Unlock()
	what := []any{"objects", f.cfg.Resource.kind.plural, "namespace", f.cfg.Resource.namespace, "selector", f.cfg.FieldSelector}
	switch {
	case err != nil && f.limiter.Allow(time.Now(), "", err.Error()):
		f.cfg.Logger.Warn("cannot read from the API server; trying again", append(what, "err", err)...)
	case err == nil && before != nil && !errors.Is(before, errNotSynced):
		f.cfg.Logger.Info("the API server answers again", what...)
	}
}

// withoutURL drops the address of the call, which is another one each time, from an error
// about a connection.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// Err says what keeps the Feed from being up to date, nil if nothing does that it knows of.
func (f *Feed[T, L]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Synced is closed once the first list is there.
func (f *Feed[T, L]) Synced() <-chan struct{} { return f.synced }

// HasSynced tells whether the first list is there.
func (f *Feed[T, L]) HasSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// Get returns an object. ok is false if there is none, or if it is not known yet.
func (f *Feed[T, L]) Get(namespace, name string) (obj T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	obj, ok = f.objects[types.NamespacedName{Namespace: namespace, Name: name}]
	return obj, ok
}

// All returns all objects, in any order.
func (f *Feed[T, L]) All() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]T, 0, len(f.objects))
	for _, obj := range f.objects {
		out = append(out, obj)
	}
	return out
}

func nameOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// store is what a reflector writes into.
type store[T Object, L runtime.Object] struct{ feed *Feed[T, L] }

func (s store[T, L]) take(obj any) (T, error) {
	o, ok := obj.(T)
	if !ok {
		return o, fmt.Errorf("%T where %T is due", obj, o)
	}
	o.SetManagedFields(nil)
	if s.feed.cfg.Trim != nil {
		s.feed.cfg.Trim(o)
	}
	return o, nil
}

func (s store[T, L]) Add(obj any) error { return s.Update(obj) }

func (s store[T, L]) Update(obj any) error {
	o, err := s.take(obj)
	if err != nil {
		return err
	}
	s.feed.mu.Lock()
	s.feed.objects[nameOf(o)] = o
	s.feed.mu.Unlock()
	s.changed(nameOf(o))
	return nil
}

func (s store[T, L]) Delete(obj any) error {
	o, err := s.take(obj)
	if err != nil {
		return err
	}
	s.feed.mu.Lock()
	delete(s.feed.objects, nameOf(o))
	s.feed.mu.Unlock()
	s.changed(nameOf(o))
	return nil
}

// Replace takes a list in, and tells what is different.
func (s store[T, L]) Replace(list []any, _ string) error {
	next := make(map[types.NamespacedName]T, len(list))
	for _, obj := range list {
		o, err := s.take(obj)
		if err != nil {
			return err
		}
		next[nameOf(o)] = o
	}
	s.feed.mu.Lock()
	before := s.feed.objects
	s.feed.objects = next
	s.feed.mu.Unlock()
	var changed []types.NamespacedName
	for name, o := range next {
		if was, there := before[name]; !there || was.GetResourceVersion() != o.GetResourceVersion() {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if _, there := next[name]; !there {
			changed = append(changed, name)
		}
	}
	first := !s.feed.HasSynced()
	if first {
		close(s.feed.synced) // by the one goroutine that writes
	}
	if first || len(changed) > 0 {
		s.changed(changed...)
	}
	return nil
}

// Resync has nothing to do: there is nobody who missed anything.
func (s store[T, L]) Resync() error { return nil }

func (s store[T, L]) changed(names ...types.NamespacedName) {
	if s.feed.cfg.OnChange != nil {
		s.feed.cfg.OnChange(names)
	}
}

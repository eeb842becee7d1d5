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
	"k8s.io/apimachinery/pkg/api/meta"
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
	// Resource is listed and watched.
	Resource Resource[T, L]
	// FieldSelector selects objects, such as "spec.nodeName=worker-1". Optional.
	FieldSelector string
	// Trim removes unused fields of a received object. Managed fields, often half of an object, are
	// always removed. Optional.
	Trim func(T)
	// Check returns an error for a received object that is unusable. A list with such an object is
	// refused, a change to it is ignored, and the error is returned by Err. Optional.
	Check func(T) error
	// OnChange is called with objects that were added, changed or removed, by the goroutine of Run.
	// The first list is a change, even if it is empty. It must not block. Optional.
	OnChange func([]types.NamespacedName)
	// MaxPause is the longest pause between two attempts to reach the server, without jitter. The
	// first pause is 100 ms. Jitter extends each pause by up to half. Default: 15 s.
	MaxPause time.Duration
	// Logger receives failures of the server and their end. Default: discard.
	Logger *slog.Logger
}

// Feed keeps a copy of the server's objects. It lists them once and then watches, and resumes a
// watch where it ended. Errors never empty it: the last state stays. Create it with NewFeed. It is
// safe for concurrent use. Callers must not change the objects that it returns.
type Feed[T Object, L runtime.Object] struct {
	cfg     FeedConfig[T, L]
	limiter *loglimit.Limiter
	synced  chan struct{}

	mu      sync.Mutex
	objects map[types.NamespacedName]T
	err     error
	running bool

	// Only Run uses these: pages and size of the list in progress, the start of the last watch,
	// and the pause after it.
	pages, size int
	watched     time.Time
	pause       time.Duration
}

// errNotSynced is the error of a Feed before its first response.
var errNotSynced = errors.New("no response from the API server yet")

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
	firstPause = 100 * time.Millisecond
	// jitter is the largest random extension of a pause, relative to the pause.
	jitter = 0.5
	// stableAfter is the duration of an attempt after which the pauses start anew.
	stableAfter = 2 * time.Minute
)

// Run lists and watches until ctx is done, and returns nil. It may be called again after it has
// returned, and then keeps the state. A concurrent call returns ErrAlreadyRun.
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
	r := cache.NewReflectorWithOptions(f.source(), f.cfg.Resource.kind.object(), store[T, L]{f, ctx}, cache.ReflectorOptions{
		Name: f.cfg.Resource.kind.plural, Logger: &silent,
		Backoff: &wait.Backoff{Duration: firstPause, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: f.cfg.MaxPause},
	})
	ctx = logr.NewContext(ctx, silent)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, f.cfg.MaxPause) {
		began := time.Now()
		// The reflector's own loop would pass errors to process-wide handlers. list and watch
		// record the relevant errors.
		_ = r.ListAndWatchWithContext(ctx)
		if time.Since(began) > stableAfter {
			pause = firstPause
		}
		run.Sleep(ctx, wait.Jitter(pause, jitter))
	}
	return nil
}

// listWatch makes a reflector list first. If it asked the server to stream the first list and the
// server refused, the reflector would sleep until its next attempt even after the end of its
// context.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by the reflector.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (f *Feed[T, L]) source() listWatch {
	return listWatch{&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}}
}

func (f *Feed[T, L]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.FieldSelector = f.cfg.FieldSelector
	l, more, err := f.page(ctx, o)
	if err != nil || !more { // the next page may fail
		f.record(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// maxPages bounds the responses of one list. maxResponse bounds their total size.
const maxPages = 1000

// page reads and checks a page of a list. more is true if another one follows.
func (f *Feed[T, L]) page(ctx context.Context, o metav1.ListOptions) (l L, more bool, err error) {
	if l, err = f.cfg.Resource.List(ctx, o); err != nil {
		return l, false, err
	}
	if o.Continue == "" {
		f.pages, f.size = 0, 0
	}
	f.pages++
	if sized, ok := any(l).(interface{ Size() int }); ok {
		f.size += sized.Size()
	}
	if f.pages > maxPages || f.size > maxResponse {
		return l, false, fmt.Errorf("list of %s exceeds the limit of %d pages or %d bytes", f.cfg.Resource.kind.plural, maxPages, maxResponse)
	}
	if f.cfg.Check != nil {
		err = meta.EachListItem(l, func(obj runtime.Object) error {
			if o, ok := obj.(T); ok { // other types are refused later
				return f.cfg.Check(o)
			}
			return nil
		})
	}
	is, invalid := meta.ListAccessor(l)
	if err = errors.Join(err, invalid); err != nil {
		return l, false, err
	}
	return l, is.GetContinue() != "", nil
}

// errNoPosition is the error of a watch after an event without resource version. The server would
// send the existing objects, but no deletions of others.
var errNoPosition = errors.New("the last event of a watch has no resourceVersion; listing again")

func (f *Feed[T, L]) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.ResourceVersion == "" {
		f.record(ctx, errNoPosition)
		return nil, errNoPosition
	}
	o.FieldSelector = f.cfg.FieldSelector
	f.rest(ctx)
	// The reflector discards errors of a started watch.
	w, err := f.cfg.Resource.Watch(onExceeded(ctx, func(err error) { f.record(ctx, err) }), o)
	f.record(ctx, err)
	if err != nil {
		return nil, err
	}
	return typed(w, func(e watch.Event) error {
		if got, ok := e.Object.(T); !ok && e.Type != watch.Error {
			err := fmt.Errorf("an event of a watch has a %T instead of a %T; listing again", e.Object, got)
			f.record(ctx, err)
			return err
		}
		return nil
	}), nil
}

// shortWatch is the duration up to which a watch is followed by a pause.
const shortWatch = time.Second

// rest pauses after short watches. The reflector only pauses after watches without an event.
func (f *Feed[T, L]) rest(ctx context.Context) {
	f.pause = min(max(2*f.pause, firstPause), f.cfg.MaxPause)
	if time.Since(f.watched) > shortWatch {
		f.pause = 0
	}
	run.Sleep(ctx, wait.Jitter(f.pause, jitter))
	f.watched = time.Now()
}

func (f *Feed[T, L]) record(ctx context.Context, err error) {
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
		f.cfg.Logger.Info("reading from the API server works again", what...)
	}
}

// withoutURL removes the URL, which differs in each call, from a connection error.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// Err returns the reason why the Feed may be outdated, or nil.
func (f *Feed[T, L]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Synced returns a channel that is closed after the first list.
func (f *Feed[T, L]) Synced() <-chan struct{} { return f.synced }

// HasSynced reports whether the first list was received.
func (f *Feed[T, L]) HasSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// Get returns an object. ok is false if it does not exist or was not received yet.
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

type store[T Object, L runtime.Object] struct {
	feed *Feed[T, L]
	ctx  context.Context // of Run
}

func (s store[T, L]) take(obj any) (T, error) {
	o, ok := obj.(T)
	if !ok {
		return o, fmt.Errorf("got a %T instead of a %T", obj, o)
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
	if check := s.feed.cfg.Check; check != nil {
		err := check(o)
		s.feed.record(s.ctx, err)
		if err != nil {
			return nil // the error is recorded, and the last state stays
		}
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

// Replace replaces the content with a list, and reports the differences.
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
		close(s.feed.synced) // only one goroutine writes
	}
	if first || len(changed) > 0 {
		s.changed(changed...)
	}
	return nil
}

// Resync does nothing, because OnChange misses no changes.
func (s store[T, L]) Resync() error { return nil }

func (s store[T, L]) changed(names ...types.NamespacedName) {
	if s.feed.cfg.OnChange != nil {
		s.feed.cfg.OnChange(names)
	}
}

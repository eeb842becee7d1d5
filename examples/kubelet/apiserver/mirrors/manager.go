package mirrors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// Config configures a Manager. Client and Node are required.
type Config struct {
	Client *apiserver.Client
	// Node returns the Node of this agent as it was seen last, nil while there is none. It
	// answers from memory and is called concurrently.
	Node func() *v1.Node
	// Logger is told what does not succeed; nil discards.
	Logger *slog.Logger
}

// Manager keeps mirrors. Use New. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	wake    run.Signal
	limiter *loglimit.Limiter
	ran     atomic.Bool

	mu    sync.Mutex
	wants map[types.NamespacedName]*want
}

// want is what is to be true of one name. Fields are guarded by Manager.mu.
type want struct {
	name types.NamespacedName
	// pod is the static pod that is to have a mirror; nil: leftover is to go.
	pod *v1.Pod
	// mirror is what the source had when it was asked last.
	mirror   *v1.Pod
	due      bool
	busy     bool
	retryAt  time.Time
	failures int
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("mirrors: Run was called before")

const (
	parallel           = 8
	pauseMin, pauseMax = 200 * time.Millisecond, 30 * time.Second
	// nodeWait is how soon it is looked again whether there is a Node, without Wake.
	nodeWait = time.Second
)

// New checks the configuration.
func New(cfg Config) (*Manager, error) {
	if err := required.Field("mirrors: Config.Client", cfg.Client); err != nil {
		return nil, err
	}
	if cfg.Node == nil {
		return nil, errors.New("mirrors: Config.Node is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, wake: run.NewSignal(), limiter: loglimit.New(5 * time.Minute), wants: map[types.NamespacedName]*want{}}, nil
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Sync has a static pod get the mirror that it should have. mirror is the one that is
// there, as far as the source knows; nil for none. Other pods are passed over. It never
// blocks; the pods are not to be changed afterwards.
func (m *Manager) Sync(pod, mirror *v1.Pod) {
	if pod == nil || !podfacts.IsStatic(pod) || podfacts.IsMirror(pod) || pod.Annotations[podfacts.ConfigHash] == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.want(nameOf(pod))
	if w.pod == nil || w.pod.UID != pod.UID {
		w.retryAt, w.failures = time.Time{}, 0
	}
	w.pod, w.mirror = pod, mirror
	w.due = w.due || decide(pod, mirror, m.cfg.Node()) != nothing
	if w.due {
		m.wake.Wake()
	}
}

func (m *Manager) want(name types.NamespacedName) *want {
	w := m.wants[name]
	if w == nil {
		w = &want{name: name}
		m.wants[name] = w
	}
	return w
}

// Wake has everything looked at that waits: the Node has come, or the server answers.
func (m *Manager) Wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wants {
		w.retryAt = time.Time{}
	}
	m.wake.Wake()
}

// Cleaner deletes mirrors whose static pods are gone, and stops caring for those of pods
// that end.
func (m *Manager) Cleaner() syncloop.Cleaner {
	return syncloop.Cleaner{Name: "mirrors", Clean: func(_ context.Context, c *syncloop.Cleanup) error {
		m.clean(c.Running, c.LeftoverMirrors)
		return nil
	}}
}

func (m *Manager) clean(running func(types.UID) bool, leftovers []*v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, w := range m.wants {
		if w.pod != nil && !running(w.pod.UID) && !w.busy {
			delete(m.wants, name)
		}
	}
	for _, mirror := range leftovers {
		if w := m.want(nameOf(mirror)); w.pod == nil || !running(w.pod.UID) {
			w.pod, w.mirror, w.due = nil, mirror, true
		}
	}
	m.wake.Wake()
}

// Run does what is wanted until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, parallel)
	for {
		w, until := m.next(time.Now())
		if w != nil {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			working.Go(func() {
				m.attend(ctx, w)
				<-free
			})
			continue
		}
		if !m.pause(ctx, until) {
			return nil
		}
	}
}

// pause waits until something is to be done; until is when at the latest, zero for never.
func (m *Manager) pause(ctx context.Context, until time.Time) bool {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-m.wake:
	case <-due:
	}
	return true
}

// next takes what is to be done now, or says when there will be something.
func (m *Manager) next(now time.Time) (next *want, until time.Time) {
	known := mayOwn(m.cfg.Node())
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wants {
		if !w.due || w.busy {
			continue
		}
		at := w.retryAt
		if w.pod != nil && !known {
			at = now.Add(nodeWait)
		}
		switch {
		case !at.After(now):
			w.busy, w.due = true, false
			return w, time.Time{}
		case until.IsZero() || at.Before(until):
			until = at
		}
	}
	return nil, until
}

// attend does what one name needs, and notes how that went.
func (m *Manager) attend(ctx context.Context, w *want) {
	m.mu.Lock()
	pod, mirror := w.pod, w.mirror
	m.mu.Unlock()
	again, err := m.act(ctx, pod, mirror)
	m.mu.Lock()
	defer m.mu.Unlock()
	w.busy = false
	switch now := time.Now(); {
	case err != nil && ctx.Err() == nil:
		pause := min(pauseMin<<min(w.failures, 10), pauseMax)
		w.failures++
		w.due, w.retryAt = true, now.Add(apiwait.Jitter(pause, 0.5))
		if m.limiter.Allow(now, w.name.String(), err.Error()) {
			m.cfg.Logger.Warn("the mirror pod is not as it should be; trying again", "pod", w.name.String(), "err", err)
		}
	case again:
		w.due, w.retryAt = true, now.Add(nodeWait)
	default:
		w.failures, w.retryAt = 0, time.Time{}
		if w.pod == nil && !w.due {
			delete(m.wants, w.name)
		}
	}
	m.wake.Wake()
}

// errStranger says that a name is taken.
var errStranger = errors.New("a pod that is no mirror of this node's has the name")

// act brings the server to what is wanted. again tells that the Node is waited for.
func (m *Manager) act(ctx context.Context, pod, mirror *v1.Pod) (again bool, err error) {
	if pod == nil {
		return false, m.remove(ctx, mirror)
	}
	node := m.cfg.Node()
	switch decide(pod, mirror, node) {
	case nothing:
		return false, nil
	case wait:
		return true, nil
	case refuse:
		return false, fmt.Errorf("%w: %s", errStranger, mirror.UID)
	case replace:
		if err := m.remove(ctx, mirror); err != nil {
			return false, err
		}
	}
	return false, m.create(ctx, pod, node)
}

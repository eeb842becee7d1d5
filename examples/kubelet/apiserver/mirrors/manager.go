package mirrors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// Config configures a Manager. Client and Node are required.
type Config struct {
	Client *apiserver.Client
	// Node returns the Node of this agent as last seen, or nil. It must not block and is called
	// concurrently.
	Node func() *v1.Node
	// Logger receives failures. Default: discard.
	Logger *slog.Logger
}

// Manager keeps mirrors. Create it with New. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	limiter *loglimit.Limiter

	mu    sync.Mutex
	wants map[types.NamespacedName]*want
	queue queue // nil before Run
}

// queue contains the names that are due. It never hands out one name twice at a time.
type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// want is the desired state of one name. Manager.mu guards the fields.
type want struct {
	name types.NamespacedName
	// pod is the static pod whose mirror is desired. nil means that mirror must be deleted.
	pod    *v1.Pod
	mirror *v1.Pod
	// due is true from the change until an attempt starts, and while a retry waits.
	due bool
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("mirrors: Run was called before")

const (
	parallel           = 8
	pauseMin, pauseMax = 200 * time.Millisecond, 30 * time.Second
	// nodeWait is the period of checks for the Node without Wake.
	nodeWait = time.Second
)

// New checks the configuration.
func New(cfg Config) (*Manager, error) {
	f := fields.Of("mirrors: Config")
	f.Required("Client", cfg.Client)
	f.Required("Node", cfg.Node)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, limiter: loglimit.New(5 * time.Minute), wants: map[types.NamespacedName]*want{}}, nil
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Sync records the desired mirror of a static pod. mirror is the existing one from the source, or
// nil. Other pods are ignored. Sync never blocks. The caller must not change the pods afterwards.
func (m *Manager) Sync(pod, mirror *v1.Pod) {
	if pod == nil || !podfacts.IsStatic(pod) || podfacts.IsMirror(pod) || pod.Annotations[podfacts.ConfigHash] == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.want(nameOf(pod))
	if w.pod == nil || w.pod.UID != pod.UID {
		m.forget(w)
	}
	w.pod, w.mirror = pod, mirror
	if decide(pod, mirror, m.cfg.Node()) != nothing {
		m.enqueue(w)
	}
}

// enqueue makes a name due. It does not shorten the back-off of a failed attempt. The caller holds mu.
func (m *Manager) enqueue(w *want) {
	if !w.due && m.queue != nil {
		m.queue.Add(w.name)
	}
	w.due = true
}

// forget resets the back-off of a name, and retries it now if it is due. The caller holds mu.
func (m *Manager) forget(w *want) {
	if m.queue == nil {
		return
	}
	m.queue.Forget(w.name)
	if w.due {
		m.queue.Add(w.name)
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

// Wake retries all waiting mirrors now. Call it when the Node appears or the server responds again.
func (m *Manager) Wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.wants {
		if w.due && m.queue != nil {
			m.queue.Add(w.name)
		}
	}
}

// Cleaner deletes mirrors without a static pod, and drops the desired mirrors of pods that end.
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
		if w.pod != nil && !running(w.pod.UID) {
			w.due = false
			m.forget(w)
			delete(m.wants, name)
		}
	}
	for _, mirror := range leftovers {
		if w := m.want(nameOf(mirror)); w.pod == nil || !running(w.pod.UID) {
			w.pod, w.mirror = nil, mirror
			m.enqueue(w)
		}
	}
}

// Run keeps mirrors until ctx is done, and returns nil. A second call returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](pauseMin, pauseMax))
	defer queue.ShutDown()
	if !m.begin(queue) {
		return ErrAlreadyRun
	}
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for name, done := queue.Get(); !done; name, done = queue.Get() {
				m.attempt(ctx, name)
				queue.Done(name)
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
	return nil
}

// begin installs a queue and adds the names that are already due. It returns false if there is a
// queue.
func (m *Manager) begin(queue queue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queue != nil {
		return false
	}
	m.queue = queue
	for name, w := range m.wants {
		if w.due {
			queue.Add(name)
		}
	}
	return true
}

// attempt moves one name toward its desired state, or schedules a retry.
func (m *Manager) attempt(ctx context.Context, name types.NamespacedName) {
	m.mu.Lock()
	w := m.wants[name]
	if w == nil || !w.due || ctx.Err() != nil {
		m.queue.Forget(name)
		m.mu.Unlock()
		return
	}
	pod, mirror := w.pod, w.mirror
	w.due = false
	m.mu.Unlock()
	again, err := m.act(ctx, pod, mirror)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		w.due = true
		m.queue.AddRateLimited(name)
		if m.limiter.Allow(time.Now(), name.String(), err.Error()) {
			m.cfg.Logger.Warn("cannot update the mirror pod; trying again", "pod", name.String(), "err", err)
		}
	case again:
		w.due = true
		m.queue.AddAfter(name, nodeWait)
	default:
		m.queue.Forget(name)
		if w.pod == nil && !w.due {
			delete(m.wants, name)
		}
	}
}

var errForeignPod = errors.New("the name belongs to a pod that is not a mirror pod of this node")

// act performs the next action at the server. again reports that the Node is missing.
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
		return false, fmt.Errorf("%w: %s", errForeignPod, mirror.UID)
	case replace:
		if err := m.remove(ctx, mirror); err != nil {
			return false, err
		}
	}
	return false, m.create(ctx, pod, node)
}

package csinodes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Manager. Client, NodeName and Node are required.
type Config struct {
	Client *apiserver.Client
	// NodeName is that of the Node and of its CSINode.
	NodeName string
	// Node returns the Node as it was seen last, nil while there is none. It answers from
	// memory and is called concurrently.
	Node func() *v1.Node
	// Period is how often it is made sure that all is still there; zero means 5 min.
	Period time.Duration
	// Logger is told what does not succeed; nil discards.
	Logger *slog.Logger
}

// Manager keeps the CSINode and what a Node says of CSI drivers. Use New. It is safe for
// concurrent use.
type Manager struct {
	cfg     Config
	wake    run.Signal
	limiter *loglimit.Limiter
	ran     atomic.Bool

	mu sync.Mutex
	// drivers are those that were seen registered: what they said, nil when they have gone
	// and their entries may be there yet.
	drivers map[string]*csi.NodeInfo
	// done is the Node to which everything was told last.
	done        types.UID
	initialised bool
	err         error
}

// Drivers is who knows what the registered drivers say of the node, such as a csi.Registry.
type Drivers interface {
	// Node is what a driver says; false if it is not registered. It answers from memory.
	Node(driver string) (csi.NodeInfo, bool)
}

var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = errors.New("csinodes: Run was called before")
	// ErrNoNode says that there is no Node yet, or that it is being deleted.
	ErrNoNode = errors.New("there is no Node to own it")
)

const (
	pauseMin, pauseMax = 200 * time.Millisecond, 30 * time.Second
	// attempts is how often what others have changed meanwhile is read again at once.
	attempts = 5
)

// New checks the configuration.
func New(cfg Config) (*Manager, error) {
	f := fields.Of("csinodes: Config")
	f.Required("Client", cfg.Client)
	f.Required("NodeName", cfg.NodeName)
	f.Required("Node", cfg.Node)
	fields.Number(f, "Period", &cfg.Period, 5*time.Minute)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Manager{
		cfg: cfg, wake: run.NewSignal(), limiter: loglimit.New(5 * time.Minute),
		drivers: map[string]*csi.NodeInfo{}, err: ErrNoNode,
	}, nil
}

// Look takes down what a driver says now: call it when the driver has registered, with
// whatever answer, and when it has gone. Calls about one driver may come in any order: each
// asks. It never blocks.
func (m *Manager) Look(driver string, at Drivers) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, registered := at.Node(driver)
	_, seen := m.drivers[driver]
	switch {
	case registered:
		info.Topology = maps.Clone(info.Topology)
		m.drivers[driver] = &info
	case seen:
		m.drivers[driver] = nil
	}
	m.wake.Wake()
}

// Wake has a look at whether the Node, as it is seen now, lacks something. It never blocks.
func (m *Manager) Wake() {
	node := m.cfg.Node()
	if !mayOwn(node) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if node.UID != m.done {
		m.wake.Wake()
		return
	}
	for driver, info := range m.drivers {
		if patch, _ := nodePatch(node, driver, info); patch != nil { // an error is one that Run has met
			m.wake.Wake()
			return
		}
	}
}

// Initialised tells whether the CSINode has been there.
func (m *Manager) Initialised() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.initialised
}

// Err is why the server does not have everything yet, nil if it has.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Run keeps the server informed until ctx ends. What is there stays.
func (m *Manager) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	for failures := 0; ; {
		err := m.sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		m.note(err)
		pause := m.cfg.Period
		if err == nil {
			failures = 0
		} else {
			pause = apiwait.Jitter(min(pauseMin<<min(failures, 10), pauseMax), 0.5)
			failures++
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// note keeps how it went, and logs what is new.
func (m *Manager) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	switch {
	case err == nil:
		m.limiter.Forget(m.cfg.NodeName)
	case !errors.Is(err, ErrNoNode) && m.limiter.Allow(time.Now(), m.cfg.NodeName, err.Error()):
		m.cfg.Logger.Warn("the CSINode is not as it should be; trying again", "err", err)
	}
}

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
	// NodeName is the name of the Node and of its CSINode.
	NodeName string
	// Node returns the Node as last seen, or nil. It must not block and is called concurrently.
	Node func() *v1.Node
	// Period is the period of checks of the server's state. Default: 5 min.
	Period time.Duration
	// Logger receives failures. Default: discard.
	Logger *slog.Logger
}

// Manager keeps the CSINode and the Node's entries of CSI drivers. Create it with New. It is safe
// for concurrent use.
type Manager struct {
	cfg     Config
	wake    run.Signal
	limiter *loglimit.Limiter
	ran     atomic.Bool

	mu sync.Mutex
	// drivers are the drivers whose registration was seen. A nil value is a deregistered driver
	// whose entries may still exist.
	drivers map[string]*csi.NodeInfo
	// done is the UID of the Node after the last complete write.
	done        types.UID
	initialised bool
	err         error
}

// Drivers provides the data of registered drivers about the node. csi.Registry implements it.
type Drivers interface {
	// Node returns a driver's data, or false if the driver is not registered. It must not block.
	Node(driver string) (csi.NodeInfo, bool)
}

var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = errors.New("csinodes: Run was called before")
	// ErrNoNode reports that the Node does not exist yet or is being deleted.
	ErrNoNode = errors.New("the Node that must own it does not exist")
)

const (
	pauseMin, pauseMax = 200 * time.Millisecond, 30 * time.Second
	// attempts is the number of immediate attempts after conflicts.
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

// Look reads a driver's current data from at. Call it when the driver has registered, whatever its
// response, and when it has deregistered. Calls may come in any order, because each reads the
// current state. Look never blocks.
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

// Wake starts a write if the Node as last seen lacks entries. It never blocks.
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
		if patch, _ := nodePatch(node, driver, info); patch != nil { // Run reports the error
			m.wake.Wake()
			return
		}
	}
}

// Initialised reports whether the CSINode has existed.
func (m *Manager) Initialised() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.initialised
}

// Err returns the reason why the server's state is incomplete, or nil.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Run keeps the entries until ctx is done, and returns nil. The entries stay at the server. A
// second call returns ErrAlreadyRun.
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

// note records the result of a sync, and logs new errors.
func (m *Manager) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	switch {
	case err == nil:
		m.limiter.Forget(m.cfg.NodeName)
	case !errors.Is(err, ErrNoNode) && m.limiter.Allow(time.Now(), m.cfg.NodeName, err.Error()):
		m.cfg.Logger.Warn("cannot update the CSINode; trying again", "err", err)
	}
}

package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/request"
	nodestatus "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/internal/run"
)

// health is the runtime's status as the runtime reports it.
type health struct {
	*cri.HealthMonitor
	release *release
	// changed is signalled when Health may have changed.
	changed run.Signal
}

// newHealth polls the runtime. A change updates the Node at once.
func newHealth(cfg *Config, conn *Connection, c *cluster) (health, error) {
	r := newRelease(conn)
	changed := run.NewSignal()
	m, err := cri.NewHealthMonitor(cri.HealthConfig{Runtime: r, Logger: cfg.Logger, OnChange: func(cri.Health) {
		changed.Wake()
		c.writeNode()
	}})
	return health{m, r, changed}, err
}

type versioned interface {
	cri.StatusReader
	cri.Versioner
}

// release reads the runtime's version with each status, because the runtime can be upgraded while
// the connection stays open.
type release struct {
	versioned
	version atomic.Pointer[string]
}

func newRelease(conn *Connection) *release {
	r := &release{versioned: conn.Runtime}
	r.version.Store(&conn.Version)
	return r
}

// Status implements cri.StatusReader. If the version cannot be read, the previous one stays.
func (r *release) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	status, err := r.versioned.Status(ctx, verbose)
	if err != nil {
		return status, err
	}
	if v, err := r.Version(ctx); err == nil {
		r.version.Store(&v.RuntimeVersion)
	}
	return status, nil
}

func (h health) handlerFeatures(name string) request.HandlerFeatures {
	handler, _ := h.Health().Handler(name)
	return request.HandlerFeatures{RecursiveReadOnlyMounts: handler.RecursiveReadOnlyMounts, UserNamespaces: handler.UserNamespaces}
}

func (h health) networkReady() error {
	return nodestatus.NetworkReady(h.Health())
}

func (h health) runtimeHealth() error {
	if c := h.Health().RuntimeReady; !c.Ready() {
		return fmt.Errorf("container runtime is %s", c)
	}
	return nil
}

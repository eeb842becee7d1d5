package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/internal/run"
)

// health is what the runtime says of itself.
type health struct {
	*cri.HealthMonitor
	release *release
	// changed tells that Health may say something else.
	changed run.Signal
}

// newHealth polls the runtime. The Node follows at once what changes.
func newHealth(cfg *Config, conn *Connection, c *cluster) (health, error) {
	r := newRelease(conn)
	changed := run.NewSignal()
	m, err := cri.NewHealthMonitor(cri.HealthConfig{Runtime: r, Logger: cfg.Logger, OnChange: func(cri.Health) {
		changed.Wake()
		c.writeNode()
	}})
	return health{m, r, changed}, err
}

// versioned is what polls need of a runtime.
type versioned interface {
	cri.StatusReader
	cri.Versioner
}

// release is a runtime that is asked for its version with its status: it may be another
// one after a restart that no connection was closed for.
type release struct {
	versioned
	version atomic.Pointer[string]
}

func newRelease(conn *Connection) *release {
	r := &release{versioned: conn.Runtime}
	r.version.Store(&conn.Version)
	return r
}

// Status implements cri.StatusReader. A version that is not said stays the one before.
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

// handlerFeatures returns the features of a runtime handler.
func (h health) handlerFeatures(name string) request.HandlerFeatures {
	handler, _ := h.Health().Handler(name)
	return request.HandlerFeatures{RecursiveReadOnlyMounts: handler.RecursiveReadOnlyMounts, UserNamespaces: handler.UserNamespaces}
}

func (h health) networkReady() error {
	if c := h.Health().NetworkReady; !c.Ready() {
		return fmt.Errorf("network of the container runtime is %s", c)
	}
	return nil
}

// runtimeHealth returns an error while the container runtime is not ready.
func (h health) runtimeHealth() error {
	if c := h.Health().RuntimeReady; !c.Ready() {
		return fmt.Errorf("container runtime is %s", c)
	}
	return nil
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/podsyncer"
	"github.com/podwright/podwright/examples/kubelet/allocatable"
	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/eviction"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// node is everything that needs a connection to the runtime, in the order in which
// newNode builds it.
type node struct {
	*ground

	health  health
	records *records.Store
	images  *images.Manager
	rotator *logs.Rotator
	logs    *logs.Reader
	cgroups *podCgroups
	// enforcer holds all pods to what the node can give; nil without cgroups.
	enforcer *allocatable.Enforcer
	held

	fit      *admission.Fit
	desired  syncloop.Desired // of the syncer, like the following six
	syncer   *podsyncer.Syncer
	statuses *writer.Writer
	probes   *probe.Manager
	workers  *podworkers.Workers
	handler  *syncloop.DefaultHandler
	loop     *syncloop.Loop
	imageGC  *gc.Manager
	summary  *summary.Provider
	evictor  *eviction.Manager
	// shutdown is nil unless pods are to end before the machine does.
	shutdown *shutdown.Manager
	// sessions and commands are endpoints of the kubelet API.
	sessions, commands http.Handler
}

// run runs all parts until ctx ends. It leaves the pods running. What the syncer asks
// for volumes runs before it and for longer.
func (n *node) run(ctx context.Context) error {
	n.checkResolver()
	acting, stop := context.WithCancel(ctx)
	defer stop()
	asked, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- run.All(asked, n.volumes.run, n.followObjects)
	}()
	err := n.syncer.RunWith(acting, n.health.Run, n.rotator.Run, n.imageGC.Run, n.keepCgroups, n.prepare, n.summary.Run, n.followShutdown)
	end()
	return errors.Join(err, <-ended)
}

// handlerFeatures are what a handler can do.
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

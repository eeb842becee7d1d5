package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume/manager"
)

// sinks are where statuses are written to besides the disk.
func (c *cluster) sinks() []writer.NamedSink {
	if c == nil {
		return nil
	}
	return []writer.NamedSink{{Name: apiSource, Sink: c.sink, Mirrors: true, Origin: true}}
}

// services are those that containers find in their environment, nil without any.
func (c *cluster) services() request.Services {
	if c == nil {
		return nil
	}
	return c.objects
}

// elsewhere finds what mirrors say of static pods that another agent has run, nil where there
// are none.
func (c *cluster) elsewhere() func(context.Context, *v1.Pod) *v1.PodStatus {
	if c == nil {
		return nil
	}
	return c.mirrors.Status
}

// runtimeHandler finds the handlers of runtime classes, nil where there are none.
func (c *cluster) runtimeHandler() func(context.Context, *v1.Pod) (string, error) {
	if c == nil {
		return nil
	}
	return c.objects.RuntimeHandler
}

// handlerFeatures are what the handler of a pod can do; of one that is not known, nothing.
func (c *cluster) handlerFeatures(h health) func(*v1.Pod) request.HandlerFeatures {
	if c == nil {
		return func(*v1.Pod) request.HandlerFeatures { return h.handlerFeatures("") }
	}
	return func(pod *v1.Pod) request.HandlerFeatures {
		name, known := c.objects.KnownHandler(pod)
		if !known {
			return request.HandlerFeatures{}
		}
		return h.handlerFeatures(name)
	}
}

// mirror returns a callback that starts updates of mirror pods, or nil without an API
// server. It does not wait for them.
func (c *cluster) mirror() func(podworkers.Work) {
	if c == nil {
		return nil
	}
	return func(w podworkers.Work) { c.mirrors.Sync(w.Pod, w.MirrorPod) }
}

// keepObjectsFor is how long an object is watched at most to which no pod refers.
const keepObjectsFor = time.Minute

// objectsCleaner ends the watches of objects that no pod needs any more.
func (c *cluster) objectsCleaner(volumes *manager.Manager) syncloop.Cleaner {
	var last time.Time
	return syncloop.Cleaner{Name: "objects", Clean: func(_ context.Context, cleanup *syncloop.Cleanup) error {
		if now := time.Now(); now.Sub(last) >= keepObjectsFor {
			last = now
			c.objects.Keep(cleanup.Pods, volumes.Objects())
		}
		return nil
	}}
}

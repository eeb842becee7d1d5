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

// sinks returns the sinks for statuses besides the disk.
func (c *cluster) sinks() []writer.NamedSink {
	if c == nil {
		return nil
	}
	return []writer.NamedSink{{Name: apiSource, Sink: c.sink, Mirrors: true, Origin: true}}
}

// services returns the services for the environment of containers, or nil without an API server.
func (c *cluster) services() request.Services {
	if c == nil {
		return nil
	}
	return c.objects
}

// elsewhere returns a function that reads the status of a static pod from its mirror pod, for pods
// that another agent ran. It is nil without an API server.
func (c *cluster) elsewhere() func(context.Context, *v1.Pod) *v1.PodStatus {
	if c == nil {
		return nil
	}
	return c.mirrors.Status
}

// runtimeHandler returns a function that resolves runtime classes to handlers. It is nil without an
// API server.
func (c *cluster) runtimeHandler() func(context.Context, *v1.Pod) (string, error) {
	if c == nil {
		return nil
	}
	return c.objects.RuntimeHandler
}

// handlerFeatures returns the features of a pod's runtime handler, or none if the handler is
// unknown.
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

// mirror returns a callback that starts updates of mirror pods, or nil without an API server. It
// does not wait for them.
func (c *cluster) mirror() func(podworkers.Work) {
	if c == nil {
		return nil
	}
	return func(w podworkers.Work) { c.mirrors.Sync(w.Pod, w.MirrorPod) }
}

// keepObjectsFor bounds the watch of an object that no pod references.
const keepObjectsFor = time.Minute

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

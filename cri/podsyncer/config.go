package podsyncer

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
)

// Config configures a Syncer. Pods, Checkpoint, Probes.Probers and Loop.Pods are required.
//
// New builds the parts that are configured here, and Run runs them. The default of their
// Event, Logger, Span and ShutdownTimeout is the field of that name here. The Syncer
// calls the callbacks of a part after it has handled the event itself.
type Config struct {
	// Pods configures what runs pods on the runtime. Required, with its Runtime,
	// RuntimeName and Images.
	Pods pods.Config
	// Checkpoint is where the status of each pod and the results of its probes are kept
	// for the agent that comes after a crash. Required.
	Checkpoint *checkpoint.Store
	// Statuses configures the writer of statuses. The Syncer adds a sink "checkpoint",
	// tells those that are a PodSink which pods there are, and fills in what it knows and
	// this does not say: Pod, Mirror, TranslateUID and MayStillRun.
	Statuses writer.Config
	// PLEG configures the observer of the runtime. The default of its Runtime observes
	// Pods.Runtime.
	PLEG pleg.Config
	// Probes configures the probes of containers. Only its Probers are required. The
	// Syncer sets Status.
	Probes probe.Config
	// Workers configures the workers of pods. The Syncer sets Syncer, OnDue and
	// TerminalPodStopped.
	Workers podworkers.Config
	// Handler configures the handler of desired pods. The default of Sources is
	// Loop.Pods if that is a syncloop.SourceReadiness, as a podsource.Merger is. The
	// Syncer sets Workers, OnReject, Phase, Prune and RuntimePods, and adds a last
	// FinalCleaner.
	Handler syncloop.HandlerConfig
	// Loop configures the sync loop. Only its Pods are required. The Syncer sets
	// Handler, adds the source "podsyncer", and checks its own health after Health.
	Loop syncloop.Config
	// Stages are what a pod holds on the node besides its containers. nil means nothing.
	// An error of a Prepare is an event on the pod; one that has a method EventReason()
	// string says with which reason, EventMessage() string with which message, and
	// podworkers.Backoff when it is tried again.
	Stages *stages.List
	// DeadContainers says which dead containers are kept of pods that stay. Zero means
	// one of each name.
	DeadContainers garbage.Policy

	// NetworkReady is why pods cannot get a network now, nil when they can. It answers
	// from memory. The field being nil means that they always can.
	NetworkReady func() error
	// HostIPs are the addresses of the node that statuses show. nil means none.
	HostIPs func() []string

	// Elsewhere returns what is last known elsewhere of a pod that runs already, comes without
	// a status and of which nothing is kept here, nil for nothing: the status of a static pod's
	// mirror, when the node was another agent's. It is asked once for such a pod, which waits
	// for the answer. nil asks nobody.
	Elsewhere func(ctx context.Context, pod *v1.Pod) *v1.PodStatus
	// Amend returns what is to be shown of a pod, given what was computed of it: with what
	// others say of a resize, for one. pod is as its worker has it. It must be quick. nil
	// changes nothing.
	Amend func(pod *v1.Pod, s v1.PodStatus) v1.PodStatus

	// OnSync is called at the begin of each SyncPod, by several goroutines. The sync waits
	// for its return. Optional.
	OnSync func(w podworkers.Work)
	// Span is called before each garbage collection ("Containers/GarbageCollect"), which uses
	// the context that it returns. end is called with the error of the collection. Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))

	// ShutdownTimeout is how long each part may take to stop when Run ends. Zero means
	// 10 s.
	ShutdownTimeout time.Duration
	// Event records Kubernetes events. It is called concurrently and must not block.
	// nil records none.
	Event podwright.EventFunc
	// Logger receives what a person should know. nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("podsyncer: Config")
	f.Required("Checkpoint", c.Checkpoint)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.NetworkReady, func() error { return nil })
	fields.Default(&c.HostIPs, func() []string { return nil })
	fields.Default(&c.Amend, func(_ *v1.Pod, s v1.PodStatus) v1.PodStatus { return s })
	fields.Default(&c.OnSync, func(podworkers.Work) {})
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	if c.Handler.Sources == nil {
		if c.Handler.Sources, _ = c.Loop.Pods.(syncloop.SourceReadiness); c.Handler.Sources == nil {
			c.Handler.Sources = alwaysReady{}
		}
	}
	if c.Stages == nil {
		var err error
		if c.Stages, err = stages.New(stages.Config{}); err != nil {
			return c, err
		}
	}
	c.complete()
	return c, f.Err()
}

// complete sets fields of the parts that are not set.
func (c *Config) complete() {
	fields.Default(&c.Workers.Span, c.Span)
	for _, event := range []*podwright.EventFunc{&c.Pods.Event, &c.Probes.Event, &c.Workers.Event} {
		fields.Default(event, c.Event)
	}
	for _, log := range []**slog.Logger{&c.Pods.Logger, &c.Statuses.Logger, &c.PLEG.Logger, &c.Probes.Logger, &c.Workers.Logger, &c.Handler.Logger, &c.Loop.Logger} {
		fields.Default(log, c.Logger)
	}
	for _, limit := range []*time.Duration{&c.Statuses.ShutdownTimeout, &c.PLEG.ShutdownTimeout, &c.Probes.ShutdownTimeout, &c.Workers.ShutdownTimeout, &c.Loop.ShutdownTimeout} {
		fields.Default(limit, c.ShutdownTimeout)
	}
}

type alwaysReady struct{}

func (alwaysReady) Ready() bool             { return true }
func (alwaysReady) SourceReady(string) bool { return true }

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
// New builds the parts configured here, and Run runs them. The Event, Logger, Span and
// ShutdownTimeout of a part default to the field of that name here. A callback of a part that the
// Syncer uses itself, such as PLEG.OnEvent, is called after the Syncer's own.
type Config struct {
	// Pods configures the manager of pods on the runtime. Its Runtime, RuntimeName, Images and Owner
	// are required.
	Pods pods.Config
	// AdoptUnlabelled makes the agent take over pods that it desires and that have no owner's label,
	// such as pods of an upstream kubelet or of an agent's earlier version without an owner. An adopted pod keeps
	// running and stays adopted until its removal, also if the agent restarts. Only pods whose UID
	// a source names are adopted. It requires Pods.Owner.Name and the default PLEG.Runtime.
	AdoptUnlabelled bool
	// LockFolder is an existing folder for the file that locks Pods.Owner on the runtime. All agents
	// of an owner on one runtime need the same folder. Default: the folder of the runtime's socket,
	// or os.TempDir with a warning if that is not writable, as for an ordinary user.
	LockFolder string
	// Checkpoint stores the status and the probe results of each pod for the next agent after a
	// crash. A pod's file needs a folder that exists before the containers start: one folder for all
	// pods, or the pod's own from a stage such as volume/podfolder. Required.
	Checkpoint *checkpoint.Store
	// Statuses configures the writer of statuses. The Syncer adds a sink "checkpoint", passes pods
	// to each PodSink, and sets Pod, Mirror, TranslateUID and MayStillRun where they are nil.
	Statuses writer.Config
	// PLEG configures the observer of the runtime. Its Runtime defaults to an observer of
	// Pods.Runtime.
	PLEG pleg.Config
	// Probes configures the probes of containers. Only its Probers are required. The Syncer sets
	// Status.
	Probes probe.Config
	// Workers configures the workers of pods. The Syncer sets Syncer, OnDue and
	// TerminalPodStopped.
	Workers podworkers.Config
	// Handler configures the handler of desired pods. Its Sources default to Loop.Pods if that
	// implements syncloop.SourceReadiness, as podsource.Merger does. The Syncer sets Workers,
	// OnReject, Phase, Prune and RuntimePods, and adds a last FinalCleaner.
	Handler syncloop.HandlerConfig
	// Loop configures the sync loop. Only its Pods are required. The Syncer sets
	// Handler, adds the source "podsyncer", and checks its own health after Health.
	Loop syncloop.Config
	// Stages are a pod's resources on the node besides its containers. Default: none. An error of
	// Prepare is recorded as an event on the pod, and the sync is retried. The error's optional
	// methods EventReason() string and EventMessage() string replace the event's reason and message,
	// and podworkers.Backoff sets the time of the retry. An error that wraps a *syncloop.Rejection
	// fails a pod that has no containers yet.
	Stages *stages.List
	// DeadContainers limits the dead containers of pods that stay. Default: one of each name.
	DeadContainers garbage.Policy

	// NetworkReady returns the reason that pods cannot have a network now, or nil. It must return
	// from memory. Default: always nil.
	NetworkReady func() error
	// HostIPs returns the node's addresses for statuses. Default: none.
	HostIPs func() []string

	// Elsewhere returns the last status of a pod from another place, or nil: for example the status
	// of a static pod's mirror, if the node belonged to another agent. It is called once for each
	// pod that runs already, comes without a status and has no saved state here; the pod waits for
	// its return. Optional.
	Elsewhere func(ctx context.Context, pod *v1.Pod) *v1.PodStatus
	// Amend returns the status to publish, given the computed one; for example it adds the state of
	// a resize. pod is the worker's version. It must be quick. Optional.
	Amend func(pod *v1.Pod, s v1.PodStatus) v1.PodStatus

	// OnSync is called at the start of each SyncPod, concurrently. The sync waits for its return.
	// Optional.
	OnSync func(w podworkers.Work)
	// Span is called before each garbage collection, with the name "Containers/GarbageCollect". The
	// collection uses the returned context, and calls end with its error. Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))

	// ShutdownTimeout bounds the stop of each part when Run ends, except the further parts of
	// RunWith. Default: 10 s.
	ShutdownTimeout time.Duration
	// Event records Kubernetes events. It is called concurrently and must not block. Optional.
	Event podwright.EventFunc
	// Logger receives messages for the operator. Default: discards them.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("podsyncer: Config")
	f.Required("Pods.Runtime", c.Pods.Runtime)
	f.Required("Pods.RuntimeName", c.Pods.RuntimeName)
	f.Required("Pods.Images", c.Pods.Images)
	if err := c.Pods.Owner.Check(); err != nil {
		f.Refuse("Pods.%w", err)
	}
	f.Required("Checkpoint", c.Checkpoint)
	f.Required("Probes.Probers", c.Probes.Probers)
	f.Required("Loop.Pods", c.Loop.Pods)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.NetworkReady, func() error { return nil })
	fields.Default(&c.HostIPs, func() []string { return nil })
	fields.Default(&c.Amend, func(_ *v1.Pod, s v1.PodStatus) v1.PodStatus { return s })
	fields.Default(&c.OnSync, func(podworkers.Work) {})
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	if c.AdoptUnlabelled && (c.Pods.Owner.Name == "" || c.Pods.Owner.Adopts != nil || c.PLEG.Runtime != nil) {
		f.Refuse("AdoptUnlabelled requires Pods.Owner.Name, and excludes Pods.Owner.Adopts and PLEG.Runtime")
	}
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

// complete sets the unset Span, Event, Logger and ShutdownTimeout of the parts.
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

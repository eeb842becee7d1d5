// Package events writes Kubernetes events to an API server, for the event callbacks of podwright's
// packages.
//
//	recorder, err := events.New(events.Config{Client: client, Component: "kubelet", Host: nodeName})
//	go recorder.Run(ctx)
//	pods.Config{Event: recorder.Event, ...}
//
// Event never blocks. client-go's correlator correlates events as upstream does: repeated events
// become the count of one event; ten events within ten minutes that differ only in their messages
// become one; one object has 25 events at once and then one every five minutes. While the server is
// unavailable, the newest Config.Size events wait, for at most an hour. Events that the server
// refuses are dropped.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Recorder. Client, Component and Host are required.
type Config struct {
	// Client writes the events. It should have its own limits.
	Client *apiserver.Client
	// Component and Host are the source of the events: "kubelet" and the node's name.
	Component, Host string
	// Size is the number of events that may wait. Default: 1000.
	Size int
	// Logger receives lost events. Default: discard.
	Logger *slog.Logger
}

// Recorder writes events. Create it with New. It is safe for concurrent use.
type Recorder struct {
	cfg        Config
	correlator *record.EventCorrelator // used by Run only
	limiter    *loglimit.Limiter
	wake       run.Signal
	ran        atomic.Bool

	mu      sync.Mutex
	waiting []*v1.Event
	lost    int
	last    int64 // number in the newest event's name
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("events: Run was called before")

const (
	// oldest is the maximum age of an event.
	oldest             = time.Hour
	pauseMin, pauseMax = 200 * time.Millisecond, 15 * time.Second
)

// New checks the configuration.
func New(cfg Config) (*Recorder, error) {
	f := fields.Of("events: Config")
	f.Required("Client", cfg.Client)
	f.Required("Component", cfg.Component)
	f.Required("Host", cfg.Host)
	fields.Number(f, "Size", &cfg.Size, 1000)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &Recorder{
		cfg: cfg, wake: run.NewSignal(), limiter: loglimit.New(time.Minute),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{LRUCacheSize: recent}),
	}, nil
}

// recent is the number of events that are remembered for counting repetitions: enough for 500 pods
// that crash all the time. Each uses up to 1 KiB.
const recent = 2048

// Event queues an event. It never blocks.
func (r *Recorder) Event(ref v1.ObjectReference, eventtype, reason, message string) {
	r.Annotated(ref, nil, eventtype, reason, message)
}

// Annotated queues an event with annotations. It never blocks.
func (r *Recorder) Annotated(ref v1.ObjectReference, annotations map[string]string, eventtype, reason, message string) {
	event := r.event(ref, eventtype, reason, message, time.Now())
	event.Annotations = maps.Clone(annotations)
	r.mu.Lock()
	event.Name = util.GenerateEventName(ref.Name, r.moment(event.FirstTimestamp.UnixNano()))
	if len(r.waiting) >= r.cfg.Size {
		r.waiting = r.waiting[1:]
		r.lost++
	}
	r.waiting = append(r.waiting, event)
	r.mu.Unlock()
	r.wake.Wake()
}

// Write writes an event now, without Run and before queued events. It tries once.
func (r *Recorder) Write(ctx context.Context, ref v1.ObjectReference, eventtype, reason, message string) error {
	event := r.event(ref, eventtype, reason, message, time.Now())
	r.mu.Lock()
	event.Name = util.GenerateEventName(ref.Name, r.moment(event.FirstTimestamp.UnixNano()))
	r.mu.Unlock()
	if _, err := r.cfg.Client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("events: %s of %s: %w", reason, ref.Name, err)
	}
	return nil
}

func (r *Recorder) event(ref v1.ObjectReference, eventtype, reason, message string, now time.Time) *v1.Event {
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	at := metav1.NewTime(now)
	return &v1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace},
		InvolvedObject:      ref,
		Type:                eventtype,
		Reason:              reason,
		Message:             message,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
		Source:              v1.EventSource{Component: r.cfg.Component, Host: r.cfg.Host},
		ReportingController: r.cfg.Component,
		ReportingInstance:   r.cfg.Host,
	}
}

// moment returns a unique number for the name of an event, because two events of one object may
// come in the same nanosecond. The caller holds mu.
func (r *Recorder) moment(now int64) int64 {
	r.last = max(r.last+1, now)
	return r.last
}

// Lost returns the number of events that were dropped because the queue was full.
func (r *Recorder) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Run writes events until ctx is done, and returns nil. It drops the events that still wait. A
// second call returns ErrAlreadyRun.
func (r *Recorder) Run(ctx context.Context) error {
	if r.ran.Swap(true) {
		return ErrAlreadyRun
	}
	for {
		event := r.next()
		if event == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-r.wake:
				continue
			}
		}
		if time.Since(event.FirstTimestamp.Time) > oldest {
			continue
		}
		correlated, err := r.correlator.EventCorrelate(event)
		if err != nil {
			r.drop(event, err)
			continue
		}
		if !correlated.Skip {
			r.deliver(ctx, correlated)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (r *Recorder) next() *v1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return nil
	}
	event := r.waiting[0]
	r.waiting = r.waiting[1:]
	return event
}

// deliver writes an event, and retries until the server accepts or refuses it, or it is too old.
func (r *Recorder) deliver(ctx context.Context, c *record.EventCorrelateResult) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		written, err := r.write(ctx, c)
		switch {
		case err == nil:
			r.correlator.UpdateState(written)
			return
		case refused(err) || time.Since(c.Event.LastTimestamp.Time) > oldest:
			r.drop(c.Event, err)
			return
		}
		if !run.Sleep(ctx, wait.Jitter(pause, 0.5)) {
			return
		}
	}
}

// write creates an event or increases its count. It creates an event again that the server has
// deleted.
func (r *Recorder) write(ctx context.Context, c *record.EventCorrelateResult) (*v1.Event, error) {
	events := r.cfg.Client.Events(c.Event.Namespace)
	if c.Event.Count > 1 && len(c.Patch) > 0 {
		event, err := events.Patch(ctx, c.Event.Name, types.StrategicMergePatchType, c.Patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return event, err
		}
	}
	own := c.Event.DeepCopy()
	own.ResourceVersion = ""
	event, err := events.Create(ctx, own, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return own, nil // an earlier attempt has succeeded
	}
	return event, err
}

// refused reports whether the server would refuse the event again.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err)
}

// leaving reports whether an event was refused because its namespace is terminating or was deleted.
// Such events have no readers.
func leaving(err error) bool {
	if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

func (r *Recorder) drop(event *v1.Event, err error) {
	about := event.InvolvedObject
	if leaving(err) {
		r.cfg.Logger.Debug("event not written: its namespace is being deleted", "namespace", event.Namespace, "object", about.Name, "reason", event.Reason)
		return
	}
	if r.limiter.Allow(time.Now(), about.Namespace+"/"+about.Name, err.Error()) {
		r.cfg.Logger.Warn("event not written", "namespace", event.Namespace, "object", about.Name, "reason", event.Reason, "err", err)
	}
}

// Package events writes Kubernetes events to an API server, for the callbacks by which the
// rooms of podwright tell of them.
//
//	recorder, err := events.New(events.Config{Client: client, Component: "kubelet", Host: nodeName})
//	go recorder.Run(ctx)
//	pods.Config{Event: recorder.Event, ...}
//
// Who tells of an event never waits. Events are correlated as upstream does it, by the
// correlator of client-go: what is repeated becomes a count of one event, ten events that
// differ only in their messages within ten minutes become one, and of one object there are
// 25 at once and one more every five minutes. Events wait for a server that is away: as
// many as Config.Size, the newest ones, and none longer than an hour. What the server
// refuses is not sent again.
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
	// Client writes the events; it should have limits of its own.
	Client *apiserver.Client
	// Component and Host say who tells of the events: "kubelet", and the node's name.
	Component, Host string
	// Size is how many events may wait; zero means 1000.
	Size int
	// Logger is told of events that get lost; nil discards.
	Logger *slog.Logger
}

// Recorder writes events. Use New. Event may be called by any number of goroutines.
type Recorder struct {
	cfg        Config
	correlator *record.EventCorrelator // of Run alone
	limiter    *loglimit.Limiter
	wake       run.Signal
	ran        atomic.Bool

	mu      sync.Mutex
	waiting []*v1.Event
	lost    int
	last    int64 // what the name of the newest event was made of
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("events: Run was called before")

const (
	// oldest is the age at which an event is news no more.
	oldest = time.Hour
	// A write that failed is repeated after a pause that grows.
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

// recent is how many events are remembered to count those that come again: as many as 500 pods
// have that crash all the time. Each takes up to 1 KiB.
const recent = 2048

// Event takes an event. It never blocks.
func (r *Recorder) Event(ref v1.ObjectReference, eventtype, reason, message string) {
	r.Annotated(ref, nil, eventtype, reason, message)
}

// Annotated takes an event with annotations. It never blocks.
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

// Write writes an event at once, by the side of those that wait: for one that cannot wait for
// Run. It tries once.
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

// moment is a number for the name of an event, which is that of no other: two events of
// one object may come in the same nanosecond. r.mu is held.
func (r *Recorder) moment(now int64) int64 {
	r.last = max(r.last+1, now)
	return r.last
}

// Lost is how many events got lost because too many waited.
func (r *Recorder) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Run writes events until ctx ends. Those that still wait then are not written.
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

// deliver writes an event until the server has taken or refused it, or it is too old.
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

// write creates an event, or counts it up. One that the server has forgotten is created
// again.
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
		return own, nil // an attempt before was heard after all
	}
	return event, err
}

// refused tells whether the server has decided, so that it would say the same again.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) && !apierrors.IsUnauthorized(err)
}

// leaving tells whether an event was refused since its namespace is going, or has gone: then
// there is nobody any more who would read it.
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
		r.cfg.Logger.Debug("an event was not written: its namespace is going", "namespace", event.Namespace, "object", about.Name, "reason", event.Reason)
		return
	}
	if r.limiter.Allow(time.Now(), about.Namespace+"/"+about.Name, err.Error()) {
		r.cfg.Logger.Warn("an event was not written", "namespace", event.Namespace, "object", about.Name, "reason", event.Reason, "err", err)
	}
}

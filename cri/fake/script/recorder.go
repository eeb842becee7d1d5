package script

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// Recorder writes down what a runtime does: it implements cri.RuntimeService and
// cri.ImageService by another runtime, and Script makes a script of what happened
// so far. It keeps every call and every event in memory. Safe for concurrent use.
type Recorder struct {
	services
	ids *identities

	mu  sync.Mutex
	log recording
}

var (
	_ cri.RuntimeService = (*Recorder)(nil)
	_ cri.ImageService   = (*Recorder)(nil)
)

// NewRecorder makes a recorder of a runtime. images may be nil if runtime is an
// ImageService, too.
func NewRecorder(runtime cri.RuntimeService, images cri.ImageService) (*Recorder, error) {
	if runtime == nil {
		return nil, errors.New("script: a Recorder needs a runtime")
	}
	if images == nil {
		var ok bool
		if images, ok = runtime.(cri.ImageService); !ok {
			return nil, errors.New("script: a Recorder needs images, since the runtime has none")
		}
	}
	r := &Recorder{ids: newIdentities(runtime), log: recording{lives: map[string]*life{}}}
	r.services = services{runtime: runtime, images: images, around: r.around, stream: r.getEvents}
	return r, nil
}

// Script makes a script that replays what was recorded, for a runtime without
// delays of its own such as the fake, with Script.Programs for its containers:
//
//   - For each call, by its number among those of its name and object, how long it
//     took and with what code it failed. A call that its caller called off is one
//     that takes effect and gets no reply. Calls under way are left out.
//   - For each container whose end was seen, in a status or an event, how long it
//     ran, whether it was stopped, how long it took from there, and how it ended.
//   - For each event, how late it was, and whether it came twice.
//
// Durations are rounded to a multiple of round, and those that come to nothing are
// left out; zero keeps them as they are.
func (r *Recorder) Script(round time.Duration) Script {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.script(round)
}

// begin takes note of a call that begins: its number counts from here.
func (r *Recorder) begin(ctx context.Context, call string, about about) *callRecord {
	object := r.ids.object(ctx, about)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &callRecord{
		number: len(r.log.calls), name: call, object: object,
		container: about.container, sandbox: about.sandbox, grace: about.grace, start: time.Now(),
	}
	if what, ok := r.ids.get(about.container); ok {
		c.sandbox = what.sandbox
	}
	r.log.calls = append(r.log.calls, c)
	return c
}

// around records one call.
func (r *Recorder) around(ctx context.Context, x *exchange) error {
	c := r.begin(ctx, x.call, x.about)
	err := x.do(ctx)
	end := time.Now()
	if err == nil {
		r.ids.learn(x)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.finish(ctx, end, err)
	if x.call == callExecSync {
		reply, _ := x.reply().(execReply)
		c.output = string(reply.stdout)
	}
	if x.call == "StartContainer" {
		r.log.started(c)
	}
	if response, ok := x.reply().(*runtimeapi.ContainerStatusResponse); ok && err == nil {
		r.log.seen(c.object, c.sandbox, response.GetStatus())
	}
	return err
}

// finish fills in how a call ended.
func (c *callRecord) finish(ctx context.Context, end time.Time, err error) {
	c.end, c.done, c.calledOff = end, true, ctx.Err() != nil
	var exited *cri.ExitError
	var call *cri.CallError
	switch {
	case err == nil:
	case errors.As(err, &exited):
		c.exit = exited.Code
	case errors.As(err, &call):
		c.code, c.text = status.Code(call), call.Message()
	default:
		c.code, c.text = status.Code(err), status.Convert(err).Message()
	}
	if c.code == codes.OK && err != nil && exited == nil {
		c.code = codes.Unknown
	}
}

// getEvents records a stream and its events.
func (r *Recorder) getEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	c := r.begin(ctx, callEvents, about{})
	delivered := map[eventKey]*eventRecord{}
	err := r.runtime.GetContainerEvents(ctx, func(event *runtimeapi.ContainerEventResponse) {
		// Some runtimes begin with what happened while nobody listened.
		if event.GetCreatedAt() >= c.start.UnixNano() {
			r.event(ctx, delivered, event)
		}
		handle(event)
	})
	end := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.finish(ctx, end, err)
	return err
}

func (r *Recorder) event(ctx context.Context, delivered map[eventKey]*eventRecord, event *runtimeapi.ContainerEventResponse) {
	now := time.Now()
	object := r.ids.event(ctx, event)
	sandbox := event.GetPodSandboxStatus().GetId()
	key := eventKey{event.GetContainerId(), event.GetContainerEventType(), event.GetCreatedAt()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range event.GetContainersStatuses() {
		o := containerObject(s.GetMetadata(), s.GetImage(), podObject(event.GetPodSandboxStatus().GetMetadata()))
		r.log.seen(o, sandbox, s)
	}
	if again := delivered[key]; again != nil {
		again.twice = true
		return
	}
	e := &eventRecord{subject: eventSubject(key.what), object: object, at: now, lag: now.Sub(time.Unix(0, key.at))}
	delivered[key] = e
	r.log.events = append(r.log.events, e)
}

// eventKey tells one event from another.
type eventKey struct {
	id   string
	what runtimeapi.ContainerEventType
	at   int64
}

package podsyncer

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/writer"
)

// PodSink is the optional interface of a status.Sink that needs the set of pods, such as
// filesink.Sink. Both methods are called concurrently. Putting a present pod and pruning an absent
// one are no errors. For a status.DeletionReceiver Prune also covers the deletions that an earlier
// agent has not delivered.
type PodSink interface {
	// Put adds a pod. It is called before each Get and Patch for the pod.
	Put(pod *v1.Pod) error
	// Prune drops all pods for which wanted returns false. An ending Run waits for its return, at
	// most for Config.ShutdownTimeout.
	Prune(wanted func(types.UID) bool) error
}

// podSinks passes pods to sinks. A sink that fails or hangs stops no pod: Put runs inside the
// writer's calls, which are bounded and repeated.
type podSinks struct {
	wanted  func(types.UID) bool
	warn    func(sink string, err error)
	sinks   []*podSink
	pods    perPod[*v1.Pod]
	limiter *loglimit.Limiter
}

type podSink struct {
	PodSink
	name  string
	woken run.Signal
}

func newPodSinks(s *Syncer) *podSinks {
	p := &podSinks{wanted: s.wanted, limiter: loglimit.New(time.Minute)}
	p.warn = func(sink string, err error) {
		s.log.Warn("removing finished pods from a status sink failed", "sink", sink, "err", err)
	}
	return p
}

// wrap returns the sinks for the writer; each PodSink receives pods before calls.
func (p *podSinks) wrap(sinks []writer.NamedSink) []writer.NamedSink {
	var out []writer.NamedSink
	for _, named := range sinks {
		if sink, ok := named.Sink.(PodSink); ok {
			p.sinks = append(p.sinks, &podSink{PodSink: sink, name: named.Name, woken: run.NewSignal()})
			if _, ok := named.Sink.(status.Receiver); !ok { // a Receiver gets the pod itself
				named.Sink = podPutter{Sink: named.Sink, sink: sink, pods: &p.pods}
			}
		}
		out = append(out, named)
	}
	return out
}

// put records a pod for the sinks, before the first call for it.
func (p *podSinks) put(pod *v1.Pod) {
	if len(p.sinks) > 0 {
		p.pods.set(pod.UID, pod)
	}
}

// prune drops unwanted pods and wakes Run. It never blocks.
func (p *podSinks) prune() {
	for _, uid := range p.pods.uids() {
		if !p.wanted(uid) {
			p.pods.drop(uid)
		}
	}
	for _, sink := range p.sinks {
		sink.woken.Wake()
	}
}

// Run prunes each sink whenever it is woken, until ctx is done. A sink that hangs delays no other.
func (p *podSinks) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, sink := range p.sinks {
		all.Go(func() { p.pruneWhenWoken(ctx, sink) })
	}
	all.Wait()
	<-ctx.Done()
	return nil
}

func (p *podSinks) pruneWhenWoken(ctx context.Context, sink *podSink) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-sink.woken:
		}
		err := run.Guard("the sink "+sink.name, func() error { return sink.Prune(p.wanted) })
		if err != nil && p.limiter.Allow(time.Now(), sink.name, err.Error()) {
			p.warn(sink.name, err)
		}
	}
}

func (s *Syncer) mirror(uid types.UID) *v1.Pod {
	if pod := s.desired.Get(uid); pod != nil {
		return s.desired.MirrorOf(pod)
	}
	return nil
}

// podPutter puts a pod into its sink before each call for it. It looks the pod up by its own UID;
// mirrors were put by their creator.
type podPutter struct {
	status.Sink
	sink PodSink
	pods *perPod[*v1.Pod]
}

func (t podPutter) put(ref status.Ref) error {
	pod := t.pods.get(ref.UID)
	if pod == nil {
		return nil
	}
	if err := t.sink.Put(pod); err != nil {
		return fmt.Errorf("put pod %s: %w", ref, err)
	}
	return nil
}

func (t podPutter) Get(ctx context.Context, ref status.Ref) (*v1.Pod, error) {
	if err := t.put(ref); err != nil {
		return nil, err
	}
	return t.Sink.Get(ctx, ref)
}

func (t podPutter) Patch(ctx context.Context, ref status.Ref, old, next *v1.PodStatus) (*v1.Pod, error) {
	if err := t.put(ref); err != nil {
		return nil, err
	}
	return t.Sink.Patch(ctx, ref, old, next)
}

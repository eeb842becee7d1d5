package podsyncer

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status/writer"
)

// PodSink is what a status.Sink is as well that has to be told which pods there are,
// since nobody else tells it, such as a filesink.Sink. Both methods may be called from
// several goroutines; what is there already, or gone already, is no error.
type PodSink interface {
	// Put has the sink know a pod. It is called before the first status of the pod is
	// published, and again at each sync.
	Put(pod *v1.Pod) error
	// Prune drops all pods that are not wanted.
	Prune(wanted func(types.UID) bool) error
}

// podSinks tells sinks which pods there are. What they cannot take in stops no pod.
type podSinks struct {
	s *Syncer

	sinks   map[string]PodSink
	limiter *cri.LogLimiter
	woken   run.Signal
}

func newPodSinks(s *Syncer, sinks []writer.NamedSink) *podSinks {
	p := &podSinks{s: s, sinks: map[string]PodSink{}, limiter: cri.NewLogLimiter(time.Minute), woken: run.NewSignal()}
	for _, named := range sinks {
		if sink, ok := named.Sink.(PodSink); ok {
			p.sinks[named.Name] = sink
		}
	}
	return p
}

func (p *podSinks) put(pod *v1.Pod) {
	for name, sink := range p.sinks {
		p.failed(name, sink.Put(pod))
	}
}

// Run has the sinks forget pods that nobody knows any more, until ctx ends.
func (p *podSinks) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.woken:
		}
		for name, sink := range p.sinks {
			p.failed(name, sink.Prune(p.s.wanted))
		}
	}
}

func (p *podSinks) failed(sink string, err error) {
	if err != nil && p.limiter.Allow(time.Now(), sink, err.Error()) {
		p.s.log.Warn("a sink of statuses cannot be told which pods there are", "sink", sink, "err", err)
	}
}

package pods

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	selectors "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// SourceName is how the source calls itself at the merger.
const SourceName = podfacts.SourceAPI

// SourceConfig configures a Source. Client, NodeName and Merger are required.
type SourceConfig struct {
	Client *apiserver.Client
	// NodeName is the node whose pods are meant.
	NodeName string
	// Merger takes the pods.
	Merger *podsource.Merger
	// OnPod is told of each pod as it was seen at the server, before the merger has it,
	// such as a writer.Writer's Observe. It must not block, nor change the pod. May be nil.
	OnPod func(*v1.Pod)
	// MaxPause is the longest pause between two attempts to reach the server; zero means
	// 5 s.
	MaxPause time.Duration
	// Logger is told when the server does not answer; nil discards.
	Logger *slog.Logger
}

// Source is a syncloop.EventSource that feeds a podsource.Merger with the pods of one
// node. Use NewSource.
type Source struct {
	cfg     SourceConfig
	feed    *apiserver.Feed[*v1.Pod, *v1.PodList]
	changed run.Signal
}

var _ syncloop.EventSource = (*Source)(nil)

// NewSource registers the source with the merger, which is not ready from then on until
// the server has answered.
func NewSource(cfg SourceConfig) (*Source, error) {
	f := fields.Of("pods: SourceConfig")
	f.Required("Client", cfg.Client)
	f.Required("Merger", cfg.Merger)
	f.Required("NodeName", cfg.NodeName)
	fields.Number(f, "MaxPause", &cfg.MaxPause, 5*time.Second)
	if err := f.Err(); err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, changed: run.NewSignal()}
	var err error
	s.feed, err = apiserver.NewFeed(apiserver.FeedConfig[*v1.Pod, *v1.PodList]{
		Resource:      cfg.Client.Pods(""),
		FieldSelector: selectors.OneTermEqualSelector("spec.nodeName", cfg.NodeName).String(),
		OnChange:      s.news, MaxPause: cfg.MaxPause, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	return s, cfg.Merger.Register(SourceName)
}

// Run follows the pods until ctx ends.
func (s *Source) Run(ctx context.Context, emit func(syncloop.Event)) error {
	// The merger may have a set of an earlier Run, and the feed a newer one.
	emit(syncloop.Event{Kind: syncloop.PodsChanged, Source: SourceName})
	s.changed.Wake()
	return run.All(ctx, s.feed.Run, func(ctx context.Context) error { return s.deliver(ctx, emit) })
}

// Err says why the pods may not be those that the server has, nil if they are.
func (s *Source) Err() error { return s.feed.Err() }

func (s *Source) news(names []types.NamespacedName) {
	if s.cfg.OnPod != nil {
		for _, name := range names {
			if pod, ok := s.feed.Get(name.Namespace, name.Name); ok {
				s.cfg.OnPod(pod)
			}
		}
	}
	s.changed.Wake()
}

// deliver hands complete sets to the merger. The feed replaces what has changed, so that the
// others cost next to nothing.
func (s *Source) deliver(ctx context.Context, emit func(syncloop.Event)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		if s.feed.HasSynced() {
			_ = s.cfg.Merger.SetConstant(SourceName, s.feed.All(), emit) // the merger reports the pods that it leaves out
		}
	}
}

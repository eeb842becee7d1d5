package pods

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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

// SourceName is the name of the source at the merger.
const SourceName = podfacts.SourceAPI

// SourceConfig configures a Source. Client, NodeName and Merger are required.
type SourceConfig struct {
	Client *apiserver.Client
	// NodeName selects the pods of one node.
	NodeName string
	// Merger receives the pods.
	Merger *podsource.Merger
	// OnPod is called with each pod as seen at the server, before the merger receives it.
	// writer.Writer's Observe is an example. It must not block or change the pod. Optional.
	OnPod func(*v1.Pod)
	// MaxPause is the longest pause between two attempts to reach the server. Default: 5 s.
	MaxPause time.Duration
	// Logger receives failures of the server. Default: discard.
	Logger *slog.Logger
}

// Source is a syncloop.EventSource that feeds a podsource.Merger with the pods of one node. Create
// it with NewSource.
type Source struct {
	cfg     SourceConfig
	feed    *apiserver.Feed[*v1.Pod, *v1.PodList]
	changed run.Signal
}

var _ syncloop.EventSource = (*Source)(nil)

// NewSource builds a source and registers it with the merger. From then on the merger is not ready
// until the first response of the server.
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

// Run watches the pods until ctx is done.
func (s *Source) Run(ctx context.Context, emit func(syncloop.Event)) error {
	// The merger may have a set of an earlier Run, and the feed a newer one.
	emit(syncloop.Event{Kind: syncloop.PodsChanged, Source: SourceName})
	s.changed.Wake()
	return run.All(ctx, s.feed.Run, func(ctx context.Context) error { return s.deliver(ctx, emit) })
}

// Err returns the reason why the pods may be outdated, or nil.
func (s *Source) Err() error { return s.feed.Err() }

func (s *Source) news(names []types.NamespacedName) {
	if s.cfg.OnPod != nil {
		for _, name := range names {
			if pod, ok := s.feed.Get(name.Namespace, name.Name); ok && pod.Spec.NodeName == s.cfg.NodeName {
				s.cfg.OnPod(pod)
			}
		}
	}
	s.changed.Wake()
}

// own returns the pods of the node. A server or proxy that ignores the selector sends all pods of the
// cluster. The oldest are first, because the merger takes the first of several pods with one UID.
func (s *Source) own() []*v1.Pod {
	pods := slices.DeleteFunc(s.feed.All(), func(p *v1.Pod) bool { return p.Spec.NodeName != s.cfg.NodeName })
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// deliver passes complete sets to the merger. The feed replaces changed pods only, so unchanged
// ones are cheap.
func (s *Source) deliver(ctx context.Context, emit func(syncloop.Event)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
		if s.feed.HasSynced() {
			_ = s.cfg.Merger.SetConstant(SourceName, s.own(), emit) // the merger reports rejected pods
		}
	}
}

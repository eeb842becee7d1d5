package pods_test

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/pods"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// The pods of a node from an API server, and their statuses back to it. The merger and
// the source are sources of a syncloop.Loop; the writer runs beside it.
func Example() {
	build := func(client *apiserver.Client, nodeName string) (*podsource.Merger, *writer.Writer, syncloop.EventSource, error) {
		sink, err := pods.NewSink(client, nodeName)
		if err != nil {
			return nil, nil, nil, err
		}
		statuses, err := writer.New(writer.Config{Sinks: []writer.NamedSink{{Name: "api", Sink: sink}}})
		if err != nil {
			return nil, nil, nil, err
		}
		merger, err := podsource.NewMerger(podsource.MergerConfig{})
		if err != nil {
			return nil, nil, nil, err
		}
		source, err := pods.NewSource(pods.SourceConfig{
			Client: client, NodeName: nodeName, Merger: merger,
			OnPod: func(pod *v1.Pod) { statuses.Observe("api", pod) },
		})
		return merger, statuses, source, err
	}
	run := func(ctx context.Context, source syncloop.EventSource) error {
		return source.Run(ctx, func(syncloop.Event) {})
	}
	_, _ = build, run
}

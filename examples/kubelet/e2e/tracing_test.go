package e2e_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
)

// collector is an OTLP server that keeps all spans, by ID.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans map[string]*tracepb.Span
}

func (c *collector) Export(_ context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[string(span.SpanId)] = span
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// below reports whether a span called name is a descendant of a span called above.
func (c *collector) below(name, above string) bool {
	for _, span := range c.spans {
		if span.Name != name {
			continue
		}
		for at := span; at != nil; at = c.spans[string(at.ParentSpanId)] {
			if at.Name == above {
				return true
			}
		}
	}
	return false
}

// The trace of a pod's sync contains its runtime calls, including the image pull.
func TestTraces(t *testing.T) {
	tb.Runtimes(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, served := grpc.NewServer(), make(chan error, 1)
	c := &collector{spans: map[string]*tracepb.Span{}}
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	t.Run("runtimes", func(t *testing.T) {
		config := fmt.Sprintf("tracing: {endpoint: '%s', samplingRatePerMillion: 1000000}", listener.Addr())
		onRuntimes(t, config, func(t *testing.T, s *scene) {
			pod := newPod("p", shell("main", s.images.Busybox, untilTerm))
			pod.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
			s.writeManifest(t, "p.yaml", pod)
			s.running(t, "p")
			require.Zero(t, s.terminate(t, 30*time.Second), "exit code; the stop flushes the last spans")
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
				require.True(t, c.below("runtime.v1.RuntimeService/"+call, "syncPod"), call)
			}
			require.True(t, c.below("runtime.v1.ImageService/PullImage", "Images/Pull"))
			require.True(t, c.below("Images/Pull", "syncPod"))
		})
	})
}

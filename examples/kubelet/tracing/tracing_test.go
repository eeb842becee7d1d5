package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/examples/kubelet/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	got   []*tracepb.ResourceSpans
	fails error
}

func (c *collector) Export(_ context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, r.ResourceSpans...)
	return &collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}}, c.fails
}

func (c *collector) spans() map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]*tracepb.Span{}
	for _, r := range c.got {
		for _, s := range r.ScopeSpans {
			for _, span := range s.Spans {
				out[span.Name] = span
			}
		}
	}
	return out
}

// serve runs a collector until the test ends.
func serve(t *testing.T, c *collector) (endpoint string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

// during runs a Tracer during a test. It returns when the spans have been sent.
func during(t *testing.T, cfg tracing.Config, test func(*tracing.Tracer)) {
	t.Helper()
	tracer, err := tracing.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	require.Eventually(t, func() bool { // until it runs
		own, end := tracer.CallSpan(context.WithoutCancel(ctx), "a/b")
		end(nil)
		return own != context.WithoutCancel(ctx) && len(outgoing(own)) > 0
	}, time.Minute, time.Millisecond)
	test(tracer)
	cancel()
	require.NoError(t, <-ended)
	require.ErrorIs(t, tracer.Run(ctx), tracing.ErrAlreadyRun)
	own, end := tracer.Span(t.Context(), "too late")
	end(nil)
	require.Equal(t, t.Context(), own)
}

func outgoing(ctx context.Context) metadata.MD {
	md, _ := metadata.FromOutgoingContext(ctx)
	return md
}

func values(s *tracepb.Span) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes {
		if out[a.Key] = any(a.Value.GetStringValue()); out[a.Key] == "" {
			out[a.Key] = a.Value.GetIntValue()
		}
	}
	return out
}

const all = 1_000_000

// The collector receives spans with their parents, attributes and results.
func TestSpans(t *testing.T) {
	c := &collector{}
	during(t, tracing.Config{Endpoint: serve(t, c), SamplingRatePerMillion: all, Service: "kubelet", Host: "n1"}, func(tracer *tracing.Tracer) {
		ctx, end := tracer.Span(t.Context(), "syncPod", slog.String("k8s.pod", "ns/p"), slog.Int("n", 3))
		call, endCall := tracer.CallSpan(ctx, "runtime.v1.RuntimeService/RunPodSandbox")
		require.Len(t, outgoing(call).Get("traceparent"), 1)
		endCall(status.Error(codes.NotFound, "no image"))
		end(errors.New("no sandbox"))
	})
	spans := c.spans()
	pod, call := spans["syncPod"], spans["runtime.v1.RuntimeService/RunPodSandbox"]
	require.NotNil(t, pod)
	require.NotNil(t, call)
	require.Equal(t, map[string]any{"k8s.pod": "ns/p", "n": "3"}, values(pod))
	require.Equal(t, map[string]any{
		"rpc.system": "grpc", "rpc.service": "runtime.v1.RuntimeService", "rpc.method": "RunPodSandbox", "rpc.grpc.status_code": int64(codes.NotFound),
	}, values(call))
	require.Equal(t, pod.SpanId, call.ParentSpanId)
	require.Equal(t, pod.TraceId, call.TraceId)
	require.Empty(t, pod.ParentSpanId)
	require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, call.Kind)
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, pod.Status.GetCode())
	require.Equal(t, "no sandbox", pod.Status.GetMessage())
	var of []string
	for _, a := range c.got[0].Resource.Attributes {
		of = append(of, a.Key+"="+a.Value.GetStringValue())
	}
	slices.Sort(of)
	require.Equal(t, []string{"host.name=n1", "service.name=kubelet"}, of)
}

// By default no trace is sampled, but traces that began elsewhere are continued.
func TestSampling(t *testing.T) {
	c := &collector{}
	during(t, tracing.Config{Endpoint: serve(t, c), Service: "kubelet"}, func(tracer *tracing.Tracer) {
		_, end := tracer.Span(t.Context(), "syncPod")
		end(nil)
	})
	require.Empty(t, c.spans())
}

// A34: an unreachable or refusing collector blocks no caller and is logged once.
func TestUnreachableCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := listener.Addr().String()
	require.NoError(t, listener.Close())
	for name, endpoint := range map[string]string{
		"nobody there": nobody,
		"refuses":      serve(t, &collector{fails: status.Error(codes.PermissionDenied, "not you")}),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			during(t, tracing.Config{Endpoint: endpoint, SamplingRatePerMillion: all, Service: "kubelet", Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(tracer *tracing.Tracer) {
				for range 5000 { // more than the queue's size
					_, end := tracer.Span(t.Context(), "syncPod")
					end(nil)
				}
			})
			require.Contains(t, log.String(), "spans dropped")
			require.Contains(t, log.String(), endpoint)
			require.LessOrEqual(t, bytes.Count(log.Bytes(), []byte{'\n'}), 2, log.String())
		})
	}
}

// A span started before Run is dropped and opens no connection.
func TestSpanBeforeRunIsDropped(t *testing.T) {
	tracer, err := tracing.New(tracing.Config{Service: "kubelet", SamplingRatePerMillion: all})
	require.NoError(t, err)
	for _, begin := range []func(context.Context) (context.Context, func(error)){
		func(ctx context.Context) (context.Context, func(error)) { return tracer.Span(ctx, "a") },
		func(ctx context.Context) (context.Context, func(error)) { return tracer.CallSpan(ctx, "a/b") },
	} {
		ctx, end := begin(t.Context())
		require.Equal(t, t.Context(), ctx)
		end(errors.New("of a dropped span"))
	}
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]tracing.Config{
		"tracing: Config.Service is required":                                         {},
		"tracing: Config.SamplingRatePerMillion: -1 is not within 0 and 1000000":      {Service: "s", SamplingRatePerMillion: -1},
		"tracing: Config.SamplingRatePerMillion: 1000001 is not within 0 and 1000000": {Service: "s", SamplingRatePerMillion: all + 1},
		"tracing: Config.ShutdownTimeout is negative: -1ns":                           {Service: "s", ShutdownTimeout: -1},
	} {
		_, err := tracing.New(cfg)
		require.EqualError(t, err, want)
	}
	tracer, err := tracing.New(tracing.Config{Service: "s", Endpoint: "%zz"})
	require.NoError(t, err)
	require.ErrorContains(t, tracer.Run(t.Context()), "tracing: Config.Endpoint")
}

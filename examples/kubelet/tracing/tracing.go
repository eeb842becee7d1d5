// Package tracing sends spans to an OpenTelemetry collector with OTLP over gRPC (the field tracing
// of the configuration file).
//
//	t, err := tracing.New(tracing.Config{Endpoint: "localhost:4317", SamplingRatePerMillion: 1_000_000, Service: "kubelet", Host: node})
//	... podsyncer.Config{Span: t.Span}, cri.ClientConfig{Span: t.CallSpan} ...
//	err = t.Run(ctx)
//
// Span and CallSpan are callbacks for the packages of the library, which do not depend on
// OpenTelemetry. A span started with the context of another span is its child, so that the sync of
// a pod has its runtime calls as children. Runtime calls carry the span (traceparent), so that the
// runtime can add its own.
//
// Spans are dropped while the collector is unreachable or slow; Span and CallSpan never block.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// DefaultEndpoint is the default address of the collector.
const DefaultEndpoint = "localhost:4317"

// Config configures a Tracer. Service is required.
type Config struct {
	// Endpoint is the gRPC target of the collector, without TLS. Default: DefaultEndpoint.
	Endpoint string
	// SamplingRatePerMillion is the number of traces out of a million that are sent. With zero,
	// only traces that began elsewhere are sent.
	SamplingRatePerMillion int32
	// Service is the service.name and Host the host.name of all spans. Service is required.
	Service, Host string
	// ShutdownTimeout bounds the sending of the last spans at the end of Run. Default: 5 s.
	ShutdownTimeout time.Duration
	// Logger receives failures to send spans, each at most once a minute. Default: discard.
	Logger *slog.Logger
}

const perMillion = 1_000_000

func (c *Config) complete() error {
	f := fields.Of("tracing: Config")
	f.Required("Service", c.Service)
	if c.SamplingRatePerMillion < 0 || c.SamplingRatePerMillion > perMillion {
		f.Refuse("SamplingRatePerMillion: %d is not within 0 and %d", c.SamplingRatePerMillion, perMillion)
	}
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 5*time.Second)
	fields.Default(&c.Endpoint, DefaultEndpoint)
	fields.Logger(&c.Logger)
	return f.Err()
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("tracing: Run was called before")

// Tracer starts spans and sends them. Use New. It is safe for concurrent use. Spans that start
// before or after Run are dropped.
type Tracer struct {
	cfg    Config
	ran    atomic.Bool
	tracer atomic.Pointer[trace.Tracer] // nil unless it runs
}

// New returns a Tracer. It drops spans until Run.
func New(cfg Config) (*Tracer, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Tracer{cfg: cfg}, nil
}

// scope is the name of the instrumentation scope.
const scope = "github.com/podwright/podwright/examples/kubelet"

// Run sends spans until ctx is done, then sends the last ones and returns nil.
func (t *Tracer) Run(ctx context.Context) error {
	if t.ran.Swap(true) {
		return ErrAlreadyRun
	}
	c, err := newClient(t.cfg.Endpoint, t.cfg.Logger)
	if err != nil {
		return fmt.Errorf("tracing: Config.Endpoint: %q: %w", t.cfg.Endpoint, err)
	}
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return errors.Join(fmt.Errorf("tracing: %w", err), c.conn.Close())
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(t.sampler())),
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", t.cfg.Service), attribute.String("host.name", t.cfg.Host))),
	)
	tracer := provider.Tracer(scope)
	t.tracer.Store(&tracer)
	<-ctx.Done()
	t.tracer.Store(nil)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.ShutdownTimeout)
	defer cancel()
	if err := provider.Shutdown(last); err != nil {
		t.cfg.Logger.Warn("last spans not sent", "err", err)
	}
	return nil
}

func (t *Tracer) sampler() sdktrace.Sampler {
	if t.cfg.SamplingRatePerMillion == 0 {
		return sdktrace.NeverSample()
	}
	return sdktrace.TraceIDRatioBased(float64(t.cfg.SamplingRatePerMillion) / perMillion)
}

// Span starts a span. end ends it, and marks it as failed if err is not nil. Span has the signature
// of the library's Span callbacks.
func (t *Tracer) Span(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error)) {
	tracer := t.tracer.Load()
	if tracer == nil {
		return ctx, func(error) {}
	}
	ctx, span := (*tracer).Start(ctx, name)
	if span.IsRecording() {
		for _, a := range attributes {
			span.SetAttributes(attribute.String(a.Key, a.Value.String()))
		}
	}
	return ctx, func(err error) { finish(span, err) }
}

// CallSpan starts the span of a gRPC call by its name "SERVICE/METHOD", and adds it to the metadata
// of the call. It has the signature of cri.ClientConfig.Span.
func (t *Tracer) CallSpan(ctx context.Context, name string) (_ context.Context, end func(err error)) {
	tracer := t.tracer.Load()
	if tracer == nil {
		return ctx, func(error) {}
	}
	service, method, _ := strings.Cut(name, "/")
	ctx, span := (*tracer).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method)))
	carried := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carried)
	for key, value := range carried {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx, func(err error) {
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(status.Code(err))))
		finish(span, err)
	}
}

func finish(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/podwright/podwright/internal/loglimit"
)

// export is the call that takes spans. Its request is a message of spans under the same number
// as in TracesData, which stands in for it: the package that is generated for the service links
// a REST gateway, and with that a megabyte of memory. Of the answer nothing is used.
const export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// client sends spans to a collector. It is an otlptrace.Client, whose failures are logged and
// end there.
type client struct {
	conn    *grpc.ClientConn
	limiter *loglimit.Limiter
	log     *slog.Logger
}

// newClient connects when there is something to send.
func newClient(endpoint string, log *slog.Logger) (*client, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("podwright-otlp"))
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, limiter: loglimit.New(time.Minute), log: log}, nil
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. It ends the connection.
func (c *client) Stop(context.Context) error { return c.conn.Close() }

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.conn.Invoke(ctx, export, &tracepb.TracesData{ResourceSpans: spans}, &emptypb.Empty{})
	if err != nil && c.limiter.Allow(time.Now(), export, err.Error()) {
		c.log.Warn("spans are dropped: the collector does not take them", "err", fmt.Errorf("%s: %w", c.conn.Target(), err))
	}
	return nil
}

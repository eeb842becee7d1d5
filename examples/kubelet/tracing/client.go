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

// export is the method that receives spans. TracesData has the same encoding as the method's
// request and replaces it: the generated package of the service links a REST gateway, which costs a
// megabyte of memory. The response is ignored.
const export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// client sends spans to a collector. It is an otlptrace.Client. It logs failures and returns none.
type client struct {
	conn    *grpc.ClientConn
	limiter *loglimit.Limiter
	log     *slog.Logger
}

// newClient returns a client that connects at its first upload.
func newClient(endpoint string, log *slog.Logger) (*client, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("podwright-otlp"))
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, limiter: loglimit.New(time.Minute), log: log}, nil
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client. It closes the connection.
func (c *client) Stop(context.Context) error { return c.conn.Close() }

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.conn.Invoke(ctx, export, &tracepb.TracesData{ResourceSpans: spans}, &emptypb.Empty{})
	if err != nil && c.limiter.Allow(time.Now(), export, err.Error()) {
		c.log.Warn("spans dropped: sending them to the collector failed", "err", fmt.Errorf("%s: %w", c.conn.Target(), err))
	}
	return nil
}

package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
)

const (
	// maxReply is the largest message that a client receives.
	maxReply = 16 << 20

	reconnectBase     = 100 * time.Millisecond
	reconnectMax      = 3 * time.Second
	minConnectTimeout = 5 * time.Second
)

// DefaultRequestTimeout is what ClientConfig.RequestTimeout is when zero.
const DefaultRequestTimeout = 2 * time.Minute

// ClientConfig says where a runtime is and how to talk to it. The zero value is
// complete: containerd's default socket with the usual deadlines.
type ClientConfig struct {
	// Endpoint is the runtime's unix socket, as a unix:// URL or an absolute
	// path. Empty means DefaultEndpoint.
	Endpoint string
	// RequestTimeout is T of the deadlines in the package documentation. Zero
	// means DefaultRequestTimeout (2m); negative values are refused.
	RequestTimeout time.Duration
	// StreamLists makes list calls use the streaming form of the RPC, whose
	// replies have no size limit as a whole. The first Unimplemented answer
	// makes a call fall back to the plain form for the life of the client.
	// False means the plain form.
	StreamLists bool
	// Logger receives failed calls, the same failure of the same container or
	// sandbox at most once a minute. Nil discards.
	Logger *slog.Logger
	// OnCall is called after each call, concurrently, on the goroutine that made it. It must
	// not block. Optional.
	OnCall func(CallInfo)
	// Span is called before each call but GetContainerEvents, concurrently, with the name of
	// the call in gRPC, such as "runtime.v1.RuntimeService/RunPodSandbox". The call is made with
	// the context that it returns, whose outgoing metadata goes to the runtime. end is called
	// with the error of the call (see CallInfo.Err). It must not block. Optional.
	Span func(ctx context.Context, name string) (_ context.Context, end func(err error))
	// Dial connects to the socket. Nil dials the unix socket.
	Dial func(ctx context.Context, socket string) (net.Conn, error)
}

// CallInfo describes a call that has ended.
type CallInfo struct {
	// Service is "runtime" or "image".
	Service string
	// Call is the name of the call in the CRI, such as "RunPodSandbox".
	Call string
	// Operation is its name in the kubelet's metrics, such as "run_podsandbox".
	Operation string
	// Duration is how long the call took.
	Duration time.Duration
	// Err is the error that the caller got. It is nil for a command that ran
	// and exited with a code other than zero: the runtime did its part.
	Err error
}

// link is a connection to one of a runtime's two services.
type link struct {
	service  string
	endpoint string
	cfg      ClientConfig
	conn     *grpc.ClientConn
	limiter  *loglimit.Limiter
	// dialErr is why the last attempt to connect failed; *dialErr is nil after
	// a success.
	dialErr atomic.Pointer[error]
	// plainOnly has the names of the list calls whose streaming form the runtime lacks.
	plainOnly sync.Map

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
}

// newLink prepares a connection. The first call makes it.
func newLink(service string, cfg ClientConfig) (*link, error) {
	f := fields.Of("cri: " + service + " client: ClientConfig")
	socket, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		f.Refuse("Endpoint: %w", err)
	}
	fields.Number(f, "RequestTimeout", &cfg.RequestTimeout, DefaultRequestTimeout)
	fields.Default(&cfg.Dial, dialUnix)
	fields.Default(&cfg.OnCall, func(CallInfo) {})
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	l := &link{service: service, endpoint: unixScheme + socket, cfg: cfg, limiter: loglimit.New(time.Minute)}
	// The target is a constant because the dialer knows where to go, and a path
	// may contain what a target URL may not.
	l.conn, err = grpc.NewClient("passthrough:///cri",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.dial(ctx, socket) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply), grpc.ForceCodecV2(codec{encoding.GetCodecV2(encproto.Name)})),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectBase, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: minConnectTimeout,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("%s client: %s: %w", service, l.endpoint, err)
	}
	return l, nil
}

// dial connects and remembers the reason of a failure, which gRPC hands on as
// text only.
func (l *link) dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := l.cfg.Dial(ctx, socket)
	l.dialErr.Store(&err)
	return conn, err
}

// unreachable is why the last attempt to connect failed, nil if it did not.
func (l *link) unreachable() error {
	if err := l.dialErr.Load(); err != nil {
		return *err
	}
	return nil
}

// dialUnix connects to a unix socket. The system refuses the connection both
// when nobody listens and when the file is no socket; the error tells which.
func dialUnix(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err == nil {
		return conn, nil
	}
	if info, statErr := os.Stat(socket); statErr == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket: %w", socket, err)
	}
	return nil, err
}

// enter announces a call. It returns false once the link is closed.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.inFlight.Add(1)
	}
	return !l.closed
}

func (l *link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close ends the connection and the calls on it, and waits for both.
func (l *link) close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	var err error
	if first {
		err = l.conn.Close()
	}
	l.inFlight.Wait()
	return err
}

// refuse closes a link that did not pass its first call, and explains the
// answer of a gRPC server that is no runtime.
func (l *link) refuse(err error) error {
	if e, ok := errors.AsType[*CallError](err); ok && IsUnimplemented(err) {
		e.because("no CRI runtime.v1 here")
	}
	_ = l.close() // the first error is the one that matters
	return err
}

// codec is grpc's own for protobuf, but that it decodes an answer from a buffer of about its
// size. grpc takes 1 MiB for each above 32 KiB, as are the lists of 100 pods, and keeps some.
type codec struct{ encoding.CodecV2 }

// answers are the buffers of replies, by size.
var answers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	buf := data.MaterializeToBuffer(answers)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), into)
}

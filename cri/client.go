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
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
)

const (
	maxReply = 16 << 20

	reconnectBase     = 100 * time.Millisecond
	reconnectMax      = 3 * time.Second
	minConnectTimeout = 5 * time.Second
)

// defaultRequestTimeout is the default of ClientConfig.RequestTimeout.
const defaultRequestTimeout = 2 * time.Minute

// ClientConfig configures a client. The zero value is valid: containerd's default socket with the
// default deadlines.
type ClientConfig struct {
	// Endpoint is the runtime's unix socket, as a unix:// URL or an absolute
	// path. Default: unix:///run/containerd/containerd.sock.
	Endpoint string
	// RequestTimeout is T of the deadlines in the package documentation. Default: 2 min.
	// Negative values are refused.
	RequestTimeout time.Duration
	// StreamLists selects the streaming RPC for list calls, whose replies may have 32 MiB in sum
	// instead of 16 MiB. After the first Unimplemented, the client uses the plain RPC for that
	// call.
	StreamLists bool
	// Logger receives failed calls. The same failure of the same container or sandbox is logged at
	// most once a minute. Nil discards.
	Logger *slog.Logger
	// OnCall is called after each call, concurrently, on the calling goroutine. It must not block.
	// Optional.
	OnCall func(CallInfo)
	// Span is called concurrently before each call except GetContainerEvents. name is the gRPC
	// name, such as "runtime.v1.RuntimeService/RunPodSandbox". The call uses the returned context
	// and sends its outgoing metadata to the runtime. end is called with the call's error (see
	// CallInfo.Err). Span and end must not block. Optional.
	Span func(ctx context.Context, name string) (_ context.Context, end func(err error))
	// Dial connects to the socket. Nil dials the unix socket.
	Dial func(ctx context.Context, socket string) (net.Conn, error)
}

// CallInfo describes a completed call.
type CallInfo struct {
	// Service is "runtime" or "image".
	Service string
	// Call is the CRI name of the call, such as "RunPodSandbox".
	Call string
	// Operation is the call's name in the kubelet's metrics, such as "run_podsandbox".
	Operation string
	Duration  time.Duration
	// Err is the call's error. It is nil for a command that ran and exited with a nonzero code.
	Err error
}

type link struct {
	service  string
	endpoint string
	cfg      ClientConfig
	conn     *grpc.ClientConn
	limiter  *loglimit.Limiter
	// dialErr is the error of the last attempt to connect; *dialErr is nil after a success.
	dialErr atomic.Pointer[error]
	// plainOnly is the set of list calls whose streaming form the runtime lacks.
	plainOnly sync.Map

	mu       sync.Mutex
	closed   bool
	inFlight sync.WaitGroup
}

// newLink returns a link that connects at its first call.
func newLink(service string, cfg ClientConfig) (*link, error) {
	f := fields.Of("cri: " + service + " client: ClientConfig")
	socket, err := ParseEndpoint(cfg.Endpoint)
	if err != nil {
		f.Refuse("Endpoint: %w", err)
	}
	fields.Number(f, "RequestTimeout", &cfg.RequestTimeout, defaultRequestTimeout)
	fields.Default(&cfg.Dial, dialUnix)
	fields.Default(&cfg.OnCall, func(CallInfo) {})
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	l := &link{service: service, endpoint: unixScheme + socket, cfg: cfg, limiter: loglimit.New(time.Minute)}
	// The target is constant: the dialer uses the socket path, which may contain characters that a
	// target URL may not.
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

// dial connects and stores the error, which gRPC returns as text only.
func (l *link) dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := l.cfg.Dial(ctx, socket)
	l.dialErr.Store(&err)
	return conn, err
}

// unreachable returns the error of the last attempt to connect, or nil.
func (l *link) unreachable() error {
	if err := l.dialErr.Load(); err != nil {
		return *err
	}
	return nil
}

// dialUnix connects to a unix socket. The system returns the same error for a socket without
// listener and for a file that is no socket; dialUnix reports the latter in its error.
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

// enter registers a call. It returns false once the link is closed.
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

// close ends the connection and its calls, and waits for both.
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

// refuse closes a link whose first call failed. If the server is a gRPC server without CRI, it
// adds this to the error.
func (l *link) refuse(err error) error {
	if e, ok := errors.AsType[*CallError](err); ok && IsUnimplemented(err) {
		e.because("the server does not implement CRI runtime.v1")
	}
	_ = l.close() // the first error is the relevant one
	return err
}

// codec is gRPC's protobuf codec with smaller buffers. For each reply above 32 KiB, such as a list
// of 100 pods, gRPC allocates 1 MiB and keeps some of these buffers; codec allocates about the
// size of the reply.
type codec struct{ encoding.CodecV2 }

// replyBuffers is the pool of reply buffers, by size.
var replyBuffers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", v)
	}
	buf := data.MaterializeToBuffer(replyBuffers)
	defer buf.Free()
	if entries(buf.ReadOnlyData()) > maxEntries {
		return errTooManyEntries // decoded, they take several times the memory of the reply
	}
	return proto.Unmarshal(buf.ReadOnlyData(), into)
}

// entries counts the values of the first field of an encoded reply, which contains the entries of
// lists.
func entries(reply []byte) (count int) {
	for len(reply) > 0 {
		field, _, n := protowire.ConsumeField(reply)
		if n < 0 {
			return count // Unmarshal reports the error
		}
		if field == 1 {
			count++
		}
		reply = reply[n:]
	}
	return count
}

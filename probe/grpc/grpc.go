package grpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/network"
)

const (
	// maxReply and maxHeader bound the response of a server.
	maxReply  = 10 << 10
	maxHeader = 64 << 10
	// buffer is sufficient for a request and a normal response.
	buffer = 4 << 10
	// maxMessage is the maximum size of a server's error in a result.
	maxMessage = 256
)

// Config configures a Prober. The zero value is valid.
type Config struct {
	// Version is the "major.minor" in the User-Agent of requests, "kube-probe/1.36". Default:
	// 1.36.
	Version string
	// DialContext connects to containers. Default: a direct connection. It is for pods that this
	// process cannot reach directly. It must return soon after its context is done.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// Prober executes grpc probes. It is safe for concurrent use.
type Prober struct {
	cfg Config
}

// New returns a Prober. It returns an error for an invalid Config.Version.
func New(cfg Config) (*Prober, error) {
	version, err := network.Version(cfg.Version)
	if err != nil {
		return nil, fmt.Errorf("grpc: Config.Version %w", err)
	}
	cfg.Version = version
	return &Prober{cfg: cfg}, nil
}

// Probe implements probe.Prober.
func (p *Prober) Probe(ctx context.Context, t probe.Target) (probe.Result, error) {
	if t.Probe == nil || t.Probe.GRPC == nil {
		return probe.Result{}, errors.New("the probe has no grpc handler")
	}
	address, err := resolve(t)
	if err != nil {
		return probe.Result{}, err
	}
	own, cancel := network.Bound(ctx, t)
	defer cancel()
	conns := &network.Conns{Connect: p.cfg.DialContext}
	defer conns.Close()
	client, err := p.client(conns, address)
	if err != nil {
		return probe.Result{}, err
	}
	defer client.Close()
	request := &grpc_health_v1.HealthCheckRequest{}
	if service := t.Probe.GRPC.Service; service != nil {
		request.Service = *service
	}
	reply, err := grpc_health_v1.NewHealthClient(client).Check(own, request)
	if err != nil {
		timeout := network.Timeout(t)
		late := fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
		if connected, failed := conns.Dialed(); failed != nil {
			err = failed // gRPC keeps only its text
			late = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, context.DeadlineExceeded)
			return network.Failure(ctx, own, err, fmt.Sprintf("error: failed to connect service at %q: %v", address, err), late)
		} else if !connected {
			late = fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, context.DeadlineExceeded)
		}
		return network.Failure(ctx, own, err, failureText(err, late), late)
	}
	if state := reply.GetStatus(); state != grpc_health_v1.HealthCheckResponse_SERVING {
		return network.Failed("service unhealthy (responded with %q)", state.String()), nil
	}
	return probe.Result{Verdict: probe.Success, Output: "service healthy"}, nil
}

func resolve(t probe.Target) (string, error) {
	port := t.Probe.GRPC.Port
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("port %d is not from 1 to 65535", port)
	}
	host, err := network.Host(t, "")
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

func (p *Prober) client(conns *network.Conns, address string) (*grpc.ClientConn, error) {
	authority := address
	if zone, end := strings.IndexByte(address, '%'), strings.LastIndexByte(address, ']'); zone >= 0 && zone < end {
		authority = address[:zone] + address[end:] // the zone is meaningless outside of this machine
	}
	return grpc.NewClient("passthrough:///pod",
		grpc.WithAuthority(authority),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return conns.Dial(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithIdleTimeout(0),
		grpc.WithUserAgent("kube-probe/"+p.cfg.Version),
		grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithReadBufferSize(buffer),
		grpc.WithWriteBufferSize(buffer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
	)
}

// failureText returns the text of a failure, which is upstream's, for the error of a call. late is
// the text for an expired deadline.
func failureText(err error, late string) string {
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Sprintf("error: health rpc probe failed: %v", err)
	}
	message := s.Message()
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	switch s.Code() {
	case codes.Unimplemented:
		return "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + message
	case codes.DeadlineExceeded: // the server has the deadline, too, and may be first
		return late
	}
	return fmt.Sprintf("error: health rpc probe failed: %v", status.Error(s.Code(), message))
}

package cri

import (
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeClient is a client for the RuntimeService of a runtime behind a socket. It reconnects by
// itself. Its calls return *CallError. It is safe for concurrent use.
type RuntimeClient struct {
	link *link
	api  runtimeapi.RuntimeServiceClient
	name string
}

var _ RuntimeService = (*RuntimeClient)(nil)

// DialRuntime connects to the RuntimeService at cfg.Endpoint and calls Version as a check. It
// fails at once without a listener, and within RequestTimeout if the listener is no CRI runtime,
// with a *CallError. For an invalid Endpoint the error wraps an *EndpointError. ctx bounds only
// this check. The caller closes the client.
func DialRuntime(ctx context.Context, cfg ClientConfig) (*RuntimeClient, error) {
	l, err := newLink("runtime", cfg)
	if err != nil {
		return nil, err
	}
	c := &RuntimeClient{link: l, api: runtimeapi.NewRuntimeServiceClient(l.conn)}
	version, err := c.Version(ctx)
	if err != nil {
		return nil, l.refuse(err)
	}
	c.name = version.GetRuntimeName()
	return c, nil
}

// Name returns the runtime's name from the first connection, such as "containerd".
func (c *RuntimeClient) Name() string { return c.name }

// Endpoint returns the runtime's endpoint as a unix:// URL. Package podsyncer locks its owner there.
func (c *RuntimeClient) Endpoint() string { return c.link.endpoint }

// Close ends the connection and all its calls, and waits until they have returned. Later calls to
// the runtime fail with ErrClosed. Close may be called again, but not from a handler of
// GetContainerEvents.
func (c *RuntimeClient) Close() error { return c.link.close() }

// Version implements Versioner.
func (c *RuntimeClient) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	return unary(ctx, c.link.call("Version", "version"), c.api.Version, &runtimeapi.VersionRequest{Version: kubeAPIVersion})
}

// Status implements RuntimeInfo.
func (c *RuntimeClient) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return unary(ctx, c.link.call("Status", "status"), c.api.Status, &runtimeapi.StatusRequest{Verbose: verbose})
}

// RuntimeConfig implements RuntimeInfo.
func (c *RuntimeClient) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return unary(ctx, c.link.call("RuntimeConfig", "runtime_config"), c.api.RuntimeConfig, &runtimeapi.RuntimeConfigRequest{})
}

// UpdateRuntimeConfig implements RuntimeInfo.
func (c *RuntimeClient) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error {
	_, err := unary(ctx, c.link.call("UpdateRuntimeConfig", "update_runtime_config"), c.api.UpdateRuntimeConfig,
		&runtimeapi.UpdateRuntimeConfigRequest{RuntimeConfig: config})
	return err
}

// GetContainerEvents implements EventStreamer. If the runtime ends the stream regularly, the error
// wraps io.EOF.
func (c *RuntimeClient) GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error {
	return c.link.call("GetContainerEvents", "get_container_events").within(0).do(ctx, func(ctx context.Context) error {
		stream, err := c.api.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		if err != nil {
			return err
		}
		for {
			event, err := stream.Recv()
			switch {
			case err == io.EOF:
				return fmt.Errorf("the runtime ended the stream: %w", err)
			case err != nil:
				return err
			case ctx.Err() != nil: // drop pending events after cancellation
				return status.FromContextError(ctx.Err()).Err()
			case c.link.isClosed():
				return status.Error(codes.Canceled, "not delivered")
			}
			handle(event)
		}
	})
}

// ExecSync implements Execer. The runtime receives the timeout in whole seconds, rounded down but
// at least one, because zero means no limit.
func (c *RuntimeClient) ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	request := &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command}
	limit := time.Duration(0) // no deadline besides ctx
	if timeout > 0 {
		request.Timeout = max(int64(timeout/time.Second), 1)
		limit = c.link.cfg.RequestTimeout + min(timeout, longest)
	}
	reply, err := unary(ctx, c.link.call("ExecSync", "exec_sync").within(limit), c.api.ExecSync, request)
	if err != nil {
		return nil, nil, err
	}
	if code := reply.GetExitCode(); code != 0 {
		err = &ExitError{Code: code, Stdout: reply.GetStdout(), Stderr: reply.GetStderr()}
	}
	return reply.GetStdout(), reply.GetStderr(), err
}

// Exec implements Streamer.
func (c *RuntimeClient) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return unary(ctx, c.link.call("Exec", "exec"), c.api.Exec, request)
}

// Attach implements Streamer.
func (c *RuntimeClient) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return unary(ctx, c.link.call("Attach", "attach"), c.api.Attach, request)
}

// PortForward implements Streamer.
func (c *RuntimeClient) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return unary(ctx, c.link.call("PortForward", "port_forward"), c.api.PortForward, request)
}

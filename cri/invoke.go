package cri

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/clip"
)

type call struct {
	link *link
	// name is the CRI name of the call, operation its name in the kubelet's metrics.
	name, operation string
	// limit is the client's deadline; 0 leaves only the caller's.
	limit time.Duration
	// object is the value of CallError.Object.
	object string
	// request is the request, or nil for calls whose requests are always small.
	request proto.Message
}

// call returns a call whose deadline is RequestTimeout.
func (l *link) call(name, operation string) call {
	return call{link: l, name: name, operation: operation, limit: l.cfg.RequestTimeout}
}

// longest bounds the timeouts of requests, so that sums do not overflow.
const longest = 365 * 24 * time.Hour

// within sets the deadline; 0 leaves only the caller's.
func (c call) within(limit time.Duration) call {
	c.limit = limit
	return c
}

// do runs fn, which makes the call, under the call's deadline. It returns errors as *CallError.
func (c call) do(ctx context.Context, fn func(context.Context) error) error {
	if !c.link.enter() {
		return c.failure(ctx, ctx, status.Error(codes.Canceled, "call not made"))
	}
	defer c.link.inFlight.Done()
	ctx, end := c.span(ctx)
	own, cancel := c.bounded(ctx)
	defer cancel()
	begin := time.Now()
	err := fn(own)
	if err != nil {
		err = c.failure(ctx, own, err)
	}
	c.log(ctx, err)
	end(err)
	c.link.cfg.OnCall(CallInfo{Service: c.link.service, Call: c.name, Operation: c.operation, Duration: time.Since(begin), Err: err})
	return err
}

// span starts the call's tracing span, if configured.
func (c call) span(ctx context.Context) (context.Context, func(error)) {
	with := c.link.cfg.Span
	if with == nil || c.name == "GetContainerEvents" {
		return ctx, func(error) {}
	}
	service := "runtime.v1.RuntimeService/"
	if c.link.service == "image" {
		service = "runtime.v1.ImageService/"
	}
	return with(ctx, service+c.name)
}

func (c call) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.limit > 0 {
		return context.WithTimeout(ctx, c.limit)
	}
	return context.WithCancel(ctx)
}

func (c call) failure(caller, own context.Context, err error) error {
	e := &CallError{Service: c.link.service, Endpoint: c.link.endpoint, Call: c.name, Object: c.object, Err: clipped(err)}
	e.explain(circumstances{
		caller: endOf(caller), reason: context.Cause(caller),
		own: endOf(own), timeout: c.limit,
		closed: c.link.isClosed(), dial: c.link.unreachable(), exec: c.name == "ExecSync",
		request: proto.Size(c.request),
	})
	return e
}

// clipped returns a runtime's error with at most clip.Message bytes of its message.
func clipped(err error) error {
	s, ok := status.FromError(err)
	if !ok || len(s.Message()) <= clip.Message {
		return err
	}
	p := s.Proto()
	p.Message = clip.Text(p.Message, clip.Message)
	return status.ErrorProto(p)
}

// endOf returns the reason of ctx's end, or nil. A deadline in the past counts even if ctx's timer
// has not fired yet, because gRPC and the runtime compare clocks.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// log logs failures of the runtime. NotFound, Unimplemented and calls that the caller cancelled
// are not logged.
func (c call) log(ctx context.Context, err error) {
	key := c.name + " " + c.object
	switch {
	case err == nil:
		c.link.limiter.Forget(key)
	case IsNotFound(err), IsUnimplemented(err), ctx.Err() != nil, errors.Is(err, ErrClosed):
	case c.link.limiter.Allow(time.Now(), key, err.Error()):
		c.link.cfg.Logger.Warn("CRI call failed", "call", c.name, "id", c.object, "err", err)
	}
}

// unary makes a call with one request and one reply, and checks the reply.
func unary[Req, Rep any](ctx context.Context, c call, method func(context.Context, *Req, ...grpc.CallOption) (*Rep, error), request *Req) (*Rep, error) {
	c.object = objectOf(request)
	c.request, _ = any(request).(proto.Message)
	var reply *Rep
	err := c.do(ctx, func(ctx context.Context) (err error) {
		if reply, err = method(ctx, request); err != nil {
			return err
		}
		return checkReply(c.name, reply)
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

func objectOf(request any) string {
	if r, ok := request.(interface{ GetContainerId() string }); ok {
		return r.GetContainerId()
	}
	if r, ok := request.(interface{ GetPodSandboxId() string }); ok {
		return r.GetPodSandboxId()
	}
	if r, ok := request.(interface{ GetImage() *runtimeapi.ImageSpec }); ok {
		return r.GetImage().GetImage()
	}
	if r, ok := request.(*runtimeapi.RunPodSandboxRequest); ok && r.GetConfig().GetMetadata() != nil {
		return r.Config.Metadata.Namespace + "/" + r.Config.Metadata.Name
	}
	return ""
}

// list makes a list call by its streaming form if StreamLists is set and the runtime supports it,
// otherwise by the plain form. Both share the call's deadline.
func list[Item any](ctx context.Context, c call, streaming, plain func(context.Context) ([]Item, error)) ([]Item, error) {
	var items []Item
	err := c.do(ctx, func(ctx context.Context) (err error) {
		if _, plain := c.link.plainOnly.Load(c.name); c.link.cfg.StreamLists && !plain {
			if items, err = streaming(ctx); !IsUnimplemented(err) {
				return err
			}
			c.link.plainOnly.Store(c.name, nil)
		}
		items, err = plain(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// maxStreamed bounds the sum of a stream's list replies, in bytes.
const maxStreamed = 2 * maxReply

// collect reads a stream of list replies to its end. A broken stream, or one of more than
// maxStreamed bytes or maxEntries entries, returns no items, because a partial list would be misread as complete.
func collect[Rep, Item any](stream grpc.ServerStreamingClient[Rep], err error, itemsOf func(*Rep) []Item) ([]Item, error) {
	if err != nil {
		return nil, err
	}
	var items []Item
	for size := 0; ; {
		reply, err := stream.Recv()
		if err == io.EOF {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		if message, ok := any(reply).(proto.Message); ok {
			size += proto.Size(message)
		}
		if size > maxStreamed {
			return nil, status.Errorf(codes.ResourceExhausted, "received a list larger than the limit of %d bytes", maxStreamed)
		}
		items = append(items, itemsOf(reply)...)
		if len(items) > maxEntries {
			return nil, status.Error(codes.ResourceExhausted, errTooManyEntries.Error())
		}
	}
}

package fake

import (
	"context"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerIO connects clients to the standard streams of a container's process.
type containerIO struct {
	stdout, stderr outputStream
	stdin          *stdinPipe // nil: the container has no standard input
	stdinOnce      bool       // the end of the first client's input ends the container's input
	resize         *resizer   // nil: the container has no terminal

	killed context.Context // done when the program is killed
	used   sync.Once
}

// connect sets the streams of a container's process.
func (s *containerIO) connect(c *container, p *Process, log *containerLog) {
	s.stdinOnce, s.killed = c.config.GetStdinOnce(), p.task.ctx
	s.stdout.log, s.stderr.log = &log.stdout, &log.stderr
	p.Stdout, p.Stderr = &s.stdout, &s.stderr
	if c.config.GetTty() {
		s.resize = newResizer()
		p.TTY, p.Resize, p.Stderr = true, s.resize.sizes, p.Stdout
	}
	if c.config.GetStdin() {
		s.stdin = newStdinPipe()
		p.Stdin = s.stdin
		// A killed program may wait for input.
		context.AfterFunc(p.task.ctx, s.stdin.close)
	}
}

// release ends the streams for the clients. It unblocks a killed program whose clients do not read.
func (s *containerIO) release() {
	s.stdout.close()
	s.stderr.close()
}

// outputStream is an output stream of a container. It copies data to the log and to every attached
// client. As with containerd, a client that does not read blocks the program until the client
// leaves or the program is killed.
type outputStream struct {
	log io.Writer

	mu      sync.Mutex
	clients []*clientPipe // copied on change
	over    bool
}

// clientPipe is the output of one client.
type clientPipe struct {
	*io.PipeReader
	in *io.PipeWriter
}

// Write logs p and copies it to the clients. A client that is added after p was logged does not get
// p.
func (o *outputStream) Write(p []byte) (int, error) {
	o.mu.Lock()
	clients := o.clients
	o.mu.Unlock()
	n, err := o.log.Write(p)
	if err != nil {
		return n, err
	}
	for _, t := range clients {
		// A client that left removes itself.
		_, _ = t.in.Write(p)
	}
	return n, nil
}

func (o *outputStream) add() *clientPipe {
	t := &clientPipe{}
	t.PipeReader, t.in = io.Pipe()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		_ = t.in.Close()
		return t
	}
	o.clients = append(slices.Clone(o.clients), t)
	return t
}

func (o *outputStream) remove(t *clientPipe) {
	_ = t.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients = slices.DeleteFunc(slices.Clone(o.clients), func(other *clientPipe) bool { return other == t })
}

// close ends the stream for the clients. Completed writes are still delivered; a Write that waits
// for a client returns.
func (o *outputStream) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, t := range o.clients {
		_ = t.in.Close()
	}
	o.clients = nil
}

// Attach prepares a session with the streams of a running container and returns its URL. Without
// Config.Streams it is Unimplemented.
func (rt *Runtime) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := rt.enter(ctx, "Attach", request); err != nil {
		return nil, err
	}
	if rt.cfg.Streams == nil {
		return nil, unimplemented("Attach")
	}
	if err := rt.streamable(request.GetContainerId()); err != nil {
		return nil, err
	}
	return rt.cfg.Streams.GetAttach(request)
}

// streamable returns the reason that a container cannot have sessions, or nil.
func (rt *Runtime) streamable(id string) error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	_, err := rt.running(id)
	return err
}

// running returns a running container. The caller holds rt.mu.
func (rt *Runtime) running(id string) (*container, error) {
	c := rt.store.containers[id]
	switch {
	case rt.unavailable() != nil:
		return nil, rt.unavailable()
	case c == nil:
		return nil, noContainer(id)
	case !c.running():
		return nil, status.Errorf(codes.Unknown, "container is in %v state", c.state)
	}
	return c, nil
}

// AttachSession connects a client to the streams of a running container. A StreamServer calls it.
// The client gets all further output. Its input goes to the container's standard input if the
// container's config has one. Several clients may be attached; each gets all output.
//
// It returns when the container exits, when both outputs of the client have failed, when the
// runtime stops, or when ctx is done, which does not affect the container. The end of the client's
// input also ends the session. But with StdinOnce in the container's config and without
// TTY it ends the container's input for good instead.
func (rt *Runtime) AttachSession(ctx context.Context, containerID string, s Session) error {
	rt.mu.RLock()
	c, err := rt.running(containerID)
	if err != nil {
		rt.mu.RUnlock()
		return err
	}
	streams, l := c.streams, rt.life
	rt.mu.RUnlock()

	bounded, end := l.bound(ctx)
	defer end()
	streams.attach(bounded, end, &s)
	return sessionEnded(ctx, l)
}

// sessionEnded returns an error if the runtime or the client ended the session.
func sessionEnded(ctx context.Context, l *life) error {
	switch {
	case l.ctx.Err() != nil:
		return callEnded(l.ctx)
	case ctx.Err() != nil:
		return callEnded(ctx)
	}
	return nil
}

// attach runs a session; end cancels its context.
func (s *containerIO) attach(ctx context.Context, end func(), client *Session) {
	s.used.Do(func() { context.AfterFunc(s.killed, s.release) })
	var outputs, inputs sync.WaitGroup
	s.stdout.copyTo(ctx, client.Stdout, &outputs)
	if s.resize == nil {
		s.stderr.copyTo(ctx, client.Stderr, &outputs)
	}
	inputs.Go(func() { s.resize.follow(ctx, client.Resize) })
	if client.Stdin != nil && s.stdin != nil {
		fed := make(chan struct{})
		if client.Stdout == nil && client.Stderr == nil {
			outputs.Go(func() { s.awaitInput(ctx, fed) })
		}
		client.feed(ctx, s.stdin, &inputs, func() {
			defer close(fed)
			if s.stdinOnce && !client.TTY {
				s.stdin.end()
			} else {
				end()
			}
		})
	}
	outputs.Wait()
	end()
	client.closeStdin()
	inputs.Wait()
}

// awaitInput waits for the end of a session that has only input: a Read of the client's input does
// not return at the end of the program or the session.
func (s *containerIO) awaitInput(ctx context.Context, fed <-chan struct{}) {
	select {
	case <-fed:
	case <-ctx.Done():
	case <-s.killed.Done():
	}
}

// copyTo copies further output to a client, if it is not nil, until ctx is done.
func (o *outputStream) copyTo(ctx context.Context, to io.Writer, joined *sync.WaitGroup) {
	if to == nil {
		return
	}
	t := o.add()
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	joined.Go(func() {
		defer stop()
		defer o.remove(t)
		_, _ = io.Copy(to, t)
	})
}

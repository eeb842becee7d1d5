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

// containerIO is what hangs on the standard streams of a container's process.
type containerIO struct {
	stdout, stderr outputStream
	stdin          *stdinPipe // nil: the container has no standard input
	stdinOnce      bool       // the first client that ends its input ends that of the container
	resize         *resizer   // nil: the container has no terminal

	killed context.Context // ends when the program is killed
	used   sync.Once
}

// connect gives a container's process its streams.
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

// release ends the streams for the clients. It lets a killed program go whose
// clients do not read.
func (s *containerIO) release() {
	s.stdout.close()
	s.stderr.close()
}

// outputStream is an output stream of a container: what is written goes to the log and
// to every client that is attached. A client that does not read holds the
// program up, as with containerd, until it leaves or the program is killed.
type outputStream struct {
	log io.Writer

	mu      sync.Mutex
	clients []*clientPipe // copied on change
	over    bool
}

// clientPipe carries what is written to one client.
type clientPipe struct {
	*io.PipeReader
	in *io.PipeWriter
}

// Write logs p and hands it to the clients. A client that is added once p is in the log does not get p.
func (o *outputStream) Write(p []byte) (int, error) {
	o.mu.Lock()
	clients := o.clients
	o.mu.Unlock()
	n, err := o.log.Write(p)
	if err != nil {
		return n, err
	}
	for _, t := range clients {
		// A client that has gone takes itself off.
		_, _ = t.in.Write(p)
	}
	return n, nil
}

// add adds a client, which gets all that is written from now on.
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

// remove takes a client off.
func (o *outputStream) remove(t *clientPipe) {
	_ = t.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clients = slices.DeleteFunc(slices.Clone(o.clients), func(other *clientPipe) bool { return other == t })
}

// close ends the stream for the clients. Whatever a Write has returned for is on
// its way to them; a Write that still waits for one is let go.
func (o *outputStream) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, t := range o.clients {
		_ = t.in.Close()
	}
	o.clients = nil
}

// Attach prepares a session with the streams of a running container and returns
// its URL. Without Config.Streams it is Unimplemented.
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

// streamable tells why there can be no session in a container.
func (rt *Runtime) streamable(id string) error {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	_, err := rt.running(id)
	return err
}

// running finds a running container. rt.mu is held.
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

// AttachSession connects a client to the streams of a running container, and is
// what a StreamServer calls. The client gets what is written from now on; it
// sends to the container's standard input if its config has one. Several clients
// may be attached; each gets everything.
//
// It returns when the container exits, when both outputs of the client have
// failed, when the runtime goes away, or when ctx ends, which leaves the
// container as it is. The end of the client's input ends the session, too; but
// with StdinOnce in the container's config and without TTY it ends the
// container's input instead, for good.
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

// sessionEnded tells whether the runtime or the client has ended a session.
func sessionEnded(ctx context.Context, l *life) error {
	switch {
	case l.ctx.Err() != nil:
		return callEnded(l.ctx)
	case ctx.Err() != nil:
		return callEnded(ctx)
	}
	return nil
}

// attach carries a session through; end ends its context.
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

// awaitInput waits for the end of a session that has nothing but input: a Read of
// the client's input does not tell when the program or the session is over.
func (s *containerIO) awaitInput(ctx context.Context, fed <-chan struct{}) {
	select {
	case <-fed:
	case <-ctx.Done():
	case <-s.killed.Done():
	}
}

// copyTo hands to a client, if there is one, what is written until ctx ends.
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

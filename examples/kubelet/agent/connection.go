package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podwright/podwright/cri"
)

// Connection is a connection to a runtime that has responded.
type Connection struct {
	Runtime cri.RuntimeService
	Images  cri.ImageService
	// Name is the runtime's name, the prefix of container IDs. Version is the runtime's version, as
	// Nodes report it.
	Name, Version string
	// Close closes the connection and waits for its goroutines. Required.
	Close func() error
	// driver is the cgroup driver. hasNoDriver is true if the runtime does not report one.
	driver      string
	hasNoDriver bool
}

// Connector connects to a runtime. The agent calls it until it succeeds. Its errors name the
// endpoint and the failed call.
type Connector func(ctx context.Context) (*Connection, error)

// Dial returns a Connector for the CRI sockets of a runtime and of its images.
func Dial(runtime, images cri.ClientConfig) Connector {
	return func(ctx context.Context) (*Connection, error) {
		r, err := cri.DialRuntime(ctx, runtime)
		if err != nil {
			return nil, err
		}
		version, err := r.Version(ctx)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		i, err := cri.DialImages(ctx, images)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		return &Connection{
			Runtime: r,
			Images:  i,
			Name:    r.Name(),
			Version: version.GetRuntimeVersion(),
			Close:   func() error { return errors.Join(i.Close(), r.Close()) },
		}, nil
	}
}

const (
	connectPauseMin = 100 * time.Millisecond
	connectPauseMax = 5 * time.Second
)

// connect retries until it has a connection, or returns nil when ctx is done. It logs an error when
// its text changes, and Health reports it. Meanwhile it runs the sources of pods, so that their
// problems are logged, too; later the loop runs them. It returns an error only if a retry cannot
// help.
func (a *Agent) connect(ctx context.Context, s *sources) (*Connection, error) {
	reading, stop := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- s.run(reading) }()
	defer func() {
		stop()
		if err := <-read; err != nil {
			a.log.Warn("reading manifests failed while the container runtime was not connected", "err", err)
		}
	}()
	last := ""
	for pause := connectPauseMin; ; pause = min(2*pause, connectPauseMax) {
		conn, err := a.cfg.Connect(ctx)
		if err == nil {
			if err = a.detectDriver(ctx, conn); err != nil {
				err = errors.Join(err, conn.Close())
			}
		}
		if err == nil {
			a.log.Info("connected to the container runtime", "runtime", conn.Name)
			return conn, nil
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, cri.ErrUnknownCgroupDriver):
			return nil, err
		}
		if text := err.Error(); text != last {
			a.log.Error("cannot connect to the container runtime; trying again", "err", err)
			last = text
		}
		a.connected.set(nil, fmt.Errorf("not connected: %w", err))
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(pause):
		}
	}
}

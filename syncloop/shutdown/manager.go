package shutdown

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

var (
	// ErrAlreadyRun is returned by a second Run of one Manager.
	ErrAlreadyRun = fields.AlreadyRun("shutdown")
	// ErrShutdownTimeout is wrapped by the error of Run if callbacks or calls of the Login did not
	// return in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrDisconnected is logged when a Session was lost.
	ErrDisconnected = errors.New("shutdown: connection to the login manager lost")
	// ErrDelayTooShort is wrapped by Connect's error if the Login's delay is too short and an
	// operator must change its configuration.
	ErrDelayTooShort = errors.New("shutdown: the machine's shutdown delay is shorter than the grace periods")

	errCancelled = errors.New("the shutdown was cancelled")
)

const shortRetryPeriod = time.Minute

// Manager ends the pods of a node that shuts down. Admit and GoingDown are safe for concurrent
// use, also before Run.
type Manager struct {
	cfg       Config
	ran       atomic.Bool
	goingDown atomic.Bool
	calls     run.Group

	// current and loggedErr are used by serve's goroutine only.
	current   *ending
	loggedErr string // the last logged error of the connection

	mu   sync.Mutex
	lock io.Closer // delays a shutdown; nil without one
}

type ending struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

const (
	// flushTimeout bounds Config.Flush.
	flushTimeout = 2 * time.Second
	// retryPeriod is the pause between attempts to connect.
	retryPeriod = time.Second
)

// New returns a Manager, or an error that names invalid fields.
func New(cfg Config) (*Manager, error) {
	f := fields.Of("shutdown: Config")
	f.Required("Login", cfg.Login)
	f.Required("Pods", cfg.Pods)
	f.Required("Kill", cfg.Kill)
	if len(cfg.Periods) == 0 {
		f.Refuse("Periods is required")
	}
	fields.Number(f, "ShutdownTimeout", &cfg.ShutdownTimeout, 10*time.Second)
	fields.Logger(&cfg.Logger)
	check(f, cfg.Periods)
	if err := f.Err(); err != nil {
		return nil, err
	}
	cfg.Periods = slices.Clone(cfg.Periods)
	return &Manager{cfg: cfg}, nil
}

// GoingDown reports whether the node is shutting down.
func (m *Manager) GoingDown() bool { return m.goingDown.Load() }

// Admit rejects every pod during a shutdown.
func (m *Manager) Admit(*v1.Pod, []*v1.Pod) error {
	if m.GoingDown() {
		return &syncloop.Rejection{Reason: ReasonRejected, Message: rejectedMessage}
	}
	return nil
}

// Run receives announcements from the Login until ctx is done, and ends the pods in a shutdown. It
// returns nil after an orderly end. The error lists the callbacks, and the calls of the Login, that
// are still running ShutdownTimeout after ctx is done, and wraps ErrShutdownTimeout. Run retries a
// failed connection after a second, or after a minute for ErrDelayTooShort, and logs each error
// once.
func (m *Manager) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	m.calls.Go("Login", func() { m.serve(ctx) })
	<-ctx.Done()
	m.calls.Go("releasing the lock", func() { m.setLock(nil) })
	return run.StillRunning("shutdown", m.cfg.ShutdownTimeout, m.calls.Wait(m.cfg.ShutdownTimeout))
}

// serve receives announcements until ctx is done.
func (m *Manager) serve(ctx context.Context) {
	for {
		err := run.Guard("Login", func() error { return m.receive(ctx) })
		if ctx.Err() != nil {
			break
		}
		if text := err.Error(); text != m.loggedErr {
			m.loggedErr = text
			m.cfg.Logger.Warn("cannot receive announcements of node shutdowns; retrying", "err", err, "stack", run.StackOf(err))
		}
		pause := retryPeriod
		if errors.Is(err, ErrDelayTooShort) {
			pause = max(pause, shortRetryPeriod)
		}
		if !run.Sleep(ctx, pause) {
			break
		}
	}
	m.stop(ctx, run.EndOf(ctx))
	m.calls.Go("releasing the lock", func() { m.setLock(nil) }) // a late Lock may have returned one
}

func (m *Manager) receive(ctx context.Context) error {
	s, err := m.cfg.Login.Connect(ctx, Total(m.cfg.Periods))
	if err != nil {
		return err
	}
	defer s.Close()
	// An agent that was restarted during a shutdown cannot get a lock. It continues in the
	// remaining time.
	down, err := s.GoingDown(ctx)
	if err != nil {
		return err
	}
	if err := m.handleAnnouncement(ctx, s, down); err != nil {
		return err
	}
	m.loggedErr = ""
	for {
		select {
		case <-ctx.Done():
			return run.EndOf(ctx)
		case down, ok := <-s.Signals():
			if !ok {
				return ErrDisconnected
			}
			if err := m.handleAnnouncement(ctx, s, down); err != nil {
				return err
			}
		}
	}
}

// handleAnnouncement handles an announcement of the Login.
func (m *Manager) handleAnnouncement(ctx context.Context, s Session, down bool) error {
	if !down {
		m.stop(ctx, errCancelled)
	}
	if ctx.Err() != nil { // the Login may have ignored its end
		return run.EndOf(ctx)
	}
	if down {
		m.begin(ctx)
		return nil
	}
	if m.goingDown.Swap(false) {
		m.cfg.Logger.Info("the node shutdown was cancelled")
		m.changed(false)
	}
	lock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	m.setLock(lock) // and closes the previous one, if the connection was lost
	return nil
}

// begin starts the shutdown unless one is in progress.
func (m *Manager) begin(ctx context.Context) {
	if m.goingDown.Swap(true) {
		return
	}
	m.cfg.Logger.Info("the node is shutting down")
	m.changed(true)
	ctx, cancel := context.WithCancelCause(ctx)
	e := &ending{cancel: cancel, done: make(chan struct{})}
	m.current = e
	end := m.calls.Begin("stopping pods")
	go func() {
		defer end()
		defer close(e.done)
		m.endPods(ctx)
		if ctx.Err() == nil {
			m.setLock(nil) // also without a connection
		}
	}()
}

// stop prevents further groups from ending. It does not wait for pods: the calls for them
// continue. It waits for the callbacks of the ending until ctx is done.
func (m *Manager) stop(ctx context.Context, why error) {
	if m.current == nil {
		return
	}
	m.current.cancel(why)
	select {
	case <-m.current.done:
	case <-ctx.Done():
	}
	m.current = nil
}

// setLock stores a lock, nil for none, and closes the previous one.
func (m *Manager) setLock(lock io.Closer) {
	m.mu.Lock()
	previous := m.lock
	m.lock = lock
	m.mu.Unlock()
	if previous != nil {
		m.guard("releasing the lock", previous.Close)
	}
}

func (m *Manager) changed(down bool) {
	if m.cfg.OnChange != nil {
		m.guard("OnChange", func() error { m.cfg.OnChange(down); return nil })
	}
}

// guard runs a callback and logs its error or panic. Run names the callback if it does not return.
func (m *Manager) guard(step string, f func() error) {
	defer m.calls.Begin(step)()
	if err := run.Guard(step, f); err != nil {
		m.cfg.Logger.Warn("node shutdown step failed", "step", step, "err", err, "stack", run.StackOf(err))
	}
}

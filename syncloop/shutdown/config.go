package shutdown

import (
	"context"
	"io"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Login is what knows that the machine goes down, and can be asked to wait: logind.
type Login interface {
	// Connect begins to listen, and sees to it that a lock is good for delay. An
	// error is taken for a Login that may come later: Connect is called again, after
	// a second, or a minute if it is ErrDelayTooShort.
	Connect(ctx context.Context, delay time.Duration) (Session, error)
}

// Session is a connection to a Login. The Manager uses one at a time, from one
// goroutine.
type Session interface {
	// Signals brings true when the machine is about to go down, and false when it will
	// not, after all. It is closed when the connection is lost. What came since Connect
	// is not lost.
	Signals() <-chan bool
	// GoingDown tells whether the machine is about to go down.
	GoingDown(ctx context.Context) (bool, error)
	// Lock makes the machine wait until the lock is closed. It outlives the Session.
	Lock(ctx context.Context) (io.Closer, error)
	// Close ends the Session.
	Close() error
}

// Config is the configuration of a Manager.
type Config struct {
	// Periods are the groups, in any order; at least one. Required.
	Periods []Period
	// Login is required.
	Login Login
	// Pods are the pods that hold something of the node, asked once when a shutdown
	// begins: whatever comes later is refused by Admit. Required.
	Pods func() []*v1.Pod
	// Kill ends a pod within seconds and returns when it has stopped, or with ctx. It
	// is called once per pod and shutdown, for the pods of a group at the same time, and
	// again when a shutdown follows a cancelled one. Terminated is
	// for the status that it sets. Required.
	Kill func(ctx context.Context, pod *v1.Pod, seconds int64) error
	// Unmounted waits until the pods have no volume left, or for ctx. May be nil.
	Unmounted func(ctx context.Context, pods []*v1.Pod) error
	// Flush waits until the statuses are written, or for ctx, 2 s at most. It
	// is called before the machine goes on. May be nil.
	Flush func(ctx context.Context) error
	// OnChange is told when the node begins to go down, and when it does not, after
	// all: the moment to write the status of the node, and an event. It must not block.
	// May be nil.
	OnChange func(goingDown bool)
	// OnTimes is told when a shutdown began and ended: for metrics. It must not block.
	// May be nil.
	OnTimes func(Times)
	// TimesFile keeps the Times, for the next agent. Empty: they are not kept.
	TimesFile string
	// ShutdownTimeout is how long Run waits for its callbacks in the end: 10 seconds if
	// it is 0.
	ShutdownTimeout time.Duration
	// Logger is silent if it is nil.
	Logger *slog.Logger
}

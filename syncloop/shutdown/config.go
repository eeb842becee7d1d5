package shutdown

import (
	"context"
	"io"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Login announces shutdowns of the machine and can delay them. The calls of Login and Session
// must return when ctx is done, because Run waits for them for ShutdownTimeout.
// examples/kubelet/shutdown has a Login for systemd-logind.
type Login interface {
	// Connect starts a Session and ensures that a lock delays a shutdown by at least delay. After
	// an error it is called again, after a second, or after a minute for ErrDelayTooShort.
	Connect(ctx context.Context, delay time.Duration) (Session, error)
}

// Session is a connection to a Login. The Manager uses one at a time, from one goroutine.
type Session interface {
	// Signals delivers true before the machine shuts down, and false if the shutdown was
	// cancelled. It is closed when the connection is lost. Signals since Connect are not lost.
	Signals() <-chan bool
	// GoingDown reports whether the machine is about to shut down.
	GoingDown(ctx context.Context) (bool, error)
	// Lock delays the shutdown until the lock is closed. The lock outlives the Session.
	Lock(ctx context.Context) (io.Closer, error)
	Close() error
}

// Config configures a Manager.
type Config struct {
	// Periods are the groups, in any order. At least one is required.
	Periods []Period
	// Login announces shutdowns. Required.
	Login Login
	// Pods returns the pods that use resources of the node. It is called once when a shutdown
	// begins; Admit rejects later pods. It must not block. Required.
	Pods func() []*v1.Pod
	// Kill stops a pod within seconds and returns when it has stopped or ctx is done. It is called
	// once per pod and shutdown, concurrently for the pods of a group, and again in a shutdown that
	// follows a cancelled one. It sets the status with Terminated. An error is logged, and the
	// shutdown continues. Required.
	Kill func(ctx context.Context, pod *v1.Pod, seconds int64) error
	// Unmounted blocks until the pods have no volumes or ctx is done, which is at the end of the
	// group's period. Optional.
	Unmounted func(ctx context.Context, pods []*v1.Pod) error
	// Flush blocks until the statuses are written or ctx is done, at most 2 s. It is called before
	// the lock is released. Optional.
	Flush func(ctx context.Context) error
	// OnChange is called when a shutdown begins and when it is cancelled, for the node's status
	// and an event. It must not block. Optional.
	OnChange func(goingDown bool)
	// OnTimes is called with the times of the shutdown, for metrics. It must not block. Optional.
	OnTimes func(Times)
	// TimesFile is the file of the Times for the next agent. Optional: without it they are not
	// saved.
	TimesFile string
	// ShutdownTimeout is the longest time that Run waits for its callbacks, for TimesFile and for
	// the Login after its context is done. Default: 10 s.
	ShutdownTimeout time.Duration
	// Logger receives log records. Optional: without it they are discarded.
	Logger *slog.Logger
}

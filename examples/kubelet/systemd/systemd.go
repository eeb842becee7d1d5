// Package systemd tells the service manager that an agent is ready, and that it is well,
// by the protocol of sd_notify(3). Without a service manager that wants to know, nothing is
// sent and nothing fails.
//
//	w, err := systemd.New(systemd.Config{Check: healthy})
//	go w.Run(ctx) // pings as long as Check finds nothing
//	...           // all servers listen
//	err = w.Ready()
//
// In the unit: Type=notify, and WatchdogSec=30s with Restart=on-failure. An agent that is
// not well is not ended by itself: it withholds its pings, and the service manager
// restarts it, however stuck it is. Pods go on meanwhile.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/podwright/podwright/internal/fields"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Config configures a Notifier. Check is required.
type Config struct {
	// Check says what is wrong with the agent, nil if nothing is. It answers soon, and finds
	// nothing as long as the agent is not up.
	Check func() error
	// Timeout is how long the service manager waits for a ping; zero means what it has put
	// into the environment (WATCHDOG_USEC), if anything.
	Timeout time.Duration
	// Notify sends a state, and tells whether somebody wants to know; nil means to the socket
	// that is named in the environment (NOTIFY_SOCKET).
	Notify func(state string) (wanted bool, err error)
	// Logger is told when a ping is withheld, or cannot be sent; nil discards.
	Logger *slog.Logger
}

// Notifier tells the service manager of an agent. Use New.
type Notifier struct {
	cfg Config
	ran atomic.Bool
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("systemd: Run was called before")

// shortest is the least pause between pings: a busy machine is late by less.
const shortest = time.Second

// New reads the environment. It refuses a timeout for which a ping would be due each
// second, or more often.
func New(cfg Config) (*Notifier, error) {
	if err := fields.Required("systemd: Config.Check", cfg.Check); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		var err error
		if cfg.Timeout, err = daemon.SdWatchdogEnabled(false); err != nil {
			return nil, fmt.Errorf("systemd: WATCHDOG_USEC: %w", err)
		}
	}
	if cfg.Timeout != 0 && cfg.Timeout/2 <= shortest {
		return nil, fmt.Errorf("systemd: the watchdog's timeout (WatchdogSec) is %s: it has to be more than %s", cfg.Timeout, 2*shortest)
	}
	fields.Default(&cfg.Notify, func(state string) (bool, error) { return daemon.SdNotify(false, state) })
	fields.Logger(&cfg.Logger)
	return &Notifier{cfg: cfg}, nil
}

// Ready says that the agent serves. The service manager starts what waits for that.
func (n *Notifier) Ready() error {
	if _, err := n.cfg.Notify(daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	return nil
}

// Run pings at half of the timeout while Check finds nothing, until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if n.cfg.Timeout == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(n.cfg.Timeout / 2)
	defer tick.Stop()
	for {
		n.ping(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// ping sends one ping, with another try after a second.
func (n *Notifier) ping(ctx context.Context) {
	if err := n.cfg.Check(); err != nil {
		n.cfg.Logger.Error("the watchdog gets no ping: the agent is not well", "err", err)
		return
	}
	var failure error
	tries := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 2}
	err := wait.ExponentialBackoffWithContext(ctx, tries, func(context.Context) (bool, error) {
		_, failure = n.cfg.Notify(daemon.SdNotifyWatchdog)
		return failure == nil, nil
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.Error("the watchdog cannot be pinged", "err", failure)
	}
}

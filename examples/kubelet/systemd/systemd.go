// Package systemd reports an agent's readiness and health to the service manager with the protocol
// of sd_notify(3). Without a service manager that expects notifications, it sends none and does not
// fail.
//
//	w, err := systemd.New(systemd.Config{Check: healthy})
//	go w.Run(ctx) // pings while Check returns nil
//	...           // all servers listen
//	err = w.Ready()
//
// The unit has Type=notify, WatchdogSec=30s and Restart=always; see package deploy. An unhealthy
// agent does not exit: it stops its pings, and the service manager restarts it, even if it hangs.
// Its pods continue to run.
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
	// Check returns an error if the agent is unhealthy. It returns promptly, and returns nil
	// while the agent starts.
	Check func() error
	// Timeout is the watchdog timeout of the service manager. Default: WATCHDOG_USEC of the
	// environment. Without both there are no pings.
	Timeout time.Duration
	// Notify sends a state and reports whether the service manager expects it. Default: the socket
	// NOTIFY_SOCKET of the environment.
	Notify func(state string) (wanted bool, err error)
	// Logger receives missing and failed pings. Default: discard.
	Logger *slog.Logger
}

// Notifier sends notifications to the service manager. Use New.
type Notifier struct {
	cfg Config
	ran atomic.Bool
}

// ErrAlreadyRun is returned by a second Run.
var ErrAlreadyRun = errors.New("systemd: Run was called before")

// minPingPeriod is the exclusive lower bound of the period of pings. A loaded machine delays a ping
// by less than that.
const minPingPeriod = time.Second

// New reads the environment and returns a Notifier. It fails if the timeout requires a ping each
// second or more often.
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
	if cfg.Timeout != 0 && cfg.Timeout/2 <= minPingPeriod {
		return nil, fmt.Errorf("systemd: watchdog timeout (WatchdogSec) %s must be longer than %s", cfg.Timeout, 2*minPingPeriod)
	}
	fields.Default(&cfg.Notify, func(state string) (bool, error) { return daemon.SdNotify(false, state) })
	fields.Logger(&cfg.Logger)
	return &Notifier{cfg: cfg}, nil
}

// Ready reports that the agent serves. The service manager then starts the units that wait for it.
func (n *Notifier) Ready() error {
	if _, err := n.cfg.Notify(daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	return nil
}

// Run sends a ping after each half of the timeout, while Check returns nil, until ctx is done.
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

// ping sends one ping. It retries once, after a second.
func (n *Notifier) ping(ctx context.Context) {
	if err := n.cfg.Check(); err != nil {
		n.cfg.Logger.Error("systemd watchdog not pinged: a health check fails", "err", err)
		return
	}
	var failure error
	tries := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 2}
	err := wait.ExponentialBackoffWithContext(ctx, tries, func(context.Context) (bool, error) {
		_, failure = n.cfg.Notify(daemon.SdNotifyWatchdog)
		return failure == nil, nil
	})
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.Error("cannot ping the systemd watchdog", "err", failure)
	}
}

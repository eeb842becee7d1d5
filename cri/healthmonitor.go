package cri

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

// StatusReader is what a HealthMonitor asks. Every RuntimeInfo is one.
type StatusReader interface {
	// Status answers the runtime's conditions, handlers and features. It
	// returns when ctx is done.
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

const shutdownTimeout = 10 * time.Second

// HealthConfig configures a HealthMonitor.
type HealthConfig struct {
	// Runtime is the runtime to watch. Required.
	Runtime StatusReader
	// Period is the time from one poll to the next. Zero means 5s.
	Period time.Duration
	// DownAfter is how long a good poll counts: a runtime without a good poll
	// for that long is not ready. Zero means 30s.
	DownAfter time.Duration
	// Timeout bounds a single poll, beside the deadline of the client itself,
	// so that a call that hangs does not use up DownAfter alone. Zero means
	// half of DownAfter.
	Timeout time.Duration
	// OnChange, if not nil, is called from Run with the health after each change
	// of anything but LastGood and the text of Err, the first one included. It
	// must not block.
	OnChange func(Health)
	// Logger receives changes and failed polls, the same failure at most once
	// a minute. Nil discards.
	Logger *slog.Logger
}

// HealthMonitor polls a runtime's status and remembers what it said.
type HealthMonitor struct {
	cfg     HealthConfig
	limiter *loglimit.Limiter

	mu   sync.Mutex
	last Health // as of the last poll
}

// NewHealthMonitor returns a monitor that knows nothing yet; Run makes it learn.
func NewHealthMonitor(cfg HealthConfig) (*HealthMonitor, error) {
	f := fields.Of("cri: HealthConfig")
	f.Required("Runtime", cfg.Runtime)
	fields.Number(f, "Period", &cfg.Period, 5*time.Second)
	fields.Number(f, "DownAfter", &cfg.DownAfter, 30*time.Second)
	fields.Number(f, "Timeout", &cfg.Timeout, cfg.DownAfter/2)
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return &HealthMonitor{cfg: cfg, limiter: loglimit.New(time.Minute)}, nil
}

// Health returns what is known now. It is safe for concurrent use.
func (m *HealthMonitor) Health() Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.last.at(time.Now(), m.cfg.DownAfter)
	h.Handlers = slices.Clone(h.Handlers)
	return h
}

// Run polls until ctx is done, at once and then every Period, and returns nil
// when the last poll has returned. It returns an error if that poll ignores its
// context for more than ten seconds. What is known stays known after Run, and
// Run may be called again after it returned.
func (m *HealthMonitor) Run(ctx context.Context) error {
	polled := run.NewSignal()
	var group run.Group
	group.Go("poll", func() { m.poll(ctx, polled) })
	told := Health{}
	down := time.NewTimer(m.untilDown())
	defer down.Stop()
	for {
		select {
		case <-ctx.Done():
			if running := group.Wait(shutdownTimeout); running != nil {
				return fmt.Errorf("cri: HealthMonitor: Status has ignored its context for %v", shutdownTimeout)
			}
			return nil
		case <-polled:
		case <-down.C:
		}
		told = m.tell(ctx, told)
		down.Reset(m.untilDown())
	}
}

// untilDown is how long it takes until the last good poll no longer counts, or a
// long time if that has happened: only a poll can change anything then.
func (m *HealthMonitor) untilDown() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := time.Until(m.last.LastGood.Add(m.cfg.DownAfter)); left > 0 {
		return left
	}
	return time.Hour
}

// tell reports the health if it differs from what was told before.
func (m *HealthMonitor) tell(ctx context.Context, told Health) Health {
	now := m.Health()
	if !now.differs(told) {
		return told
	}
	level := slog.LevelInfo
	if !now.RuntimeReady.Ready() || !now.NetworkReady.Ready() {
		level = slog.LevelWarn
	}
	args := []any{"runtime", now.RuntimeReady.String(), "network", now.NetworkReady.String()}
	if now.Err != nil {
		args = append(args, "err", now.Err)
	}
	m.cfg.Logger.Log(ctx, level, "runtime health changed", args...)
	if m.cfg.OnChange != nil {
		m.cfg.OnChange(now)
	}
	return now
}

// poll polls until ctx is done and says so after each poll.
func (m *HealthMonitor) poll(ctx context.Context, polled run.Signal) {
	ticker := time.NewTicker(m.cfg.Period)
	defer ticker.Stop()
	for {
		m.pollOnce(ctx)
		polled.Wake()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pollOnce asks for the status and remembers the answer. One that was cut short
// by the end of ctx says nothing about the runtime.
func (m *HealthMonitor) pollOnce(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	reply, err := m.cfg.Runtime.Status(bounded, false)
	if ctx.Err() != nil {
		return
	}
	if err != nil && m.limiter.Allow(time.Now(), "status", err.Error()) {
		m.cfg.Logger.Warn("runtime status poll failed", "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = m.last.next(time.Now(), reply, err)
}

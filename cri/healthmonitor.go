package cri

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/loglimit"
	"github.com/podwright/podwright/internal/run"
)

// StatusReader is the part of the runtime that a HealthMonitor polls. Every RuntimeInfo implements
// it.
type StatusReader interface {
	// Status returns the runtime's conditions, handlers and features. It must return when ctx is
	// done.
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
}

const shutdownTimeout = 10 * time.Second

// reconnectWithin bounds the time until a client is connected to a runtime that has returned: the
// longest pause between two attempts, with its jitter of 20 %.
const reconnectWithin = reconnectMax * 6 / 5

// HealthConfig configures a HealthMonitor.
type HealthConfig struct {
	// Runtime is the runtime to watch. Required.
	Runtime StatusReader
	// Period is the interval between polls. Default: 5 s.
	Period time.Duration
	// DownAfter is the longest absence of a runtime that leaves it ready. It counts from the start of
	// the first failed poll after a good one. A runtime is not ready when polls hang for DownAfter, or
	// fail otherwise for DownAfter and the 3.6 s that a client needs to reconnect. One failed poll
	// alone never suffices. Default: 30 s.
	DownAfter time.Duration
	// Timeout bounds a single poll, in addition to the client's own deadline, so that one hanging
	// call does not consume all of DownAfter. Default: half of DownAfter.
	Timeout time.Duration
	// OnChange is called from Run with the health after each change, including the first. Changes
	// of LastGood and of the text of Err do not count. It must not block. Optional.
	OnChange func(Health)
	// Logger receives changes and failed polls, the same failure at most once a minute. Nil
	// discards.
	Logger *slog.Logger
}

// ErrAlreadyRun is returned by a second Run of a HealthMonitor.
var ErrAlreadyRun = fields.AlreadyRun("cri")

// HealthMonitor polls a runtime's status in Run and keeps the result. It is safe for concurrent
// use.
type HealthMonitor struct {
	cfg     HealthConfig
	ran     atomic.Bool
	limiter *loglimit.Limiter
	// polled is signalled after each poll.
	polled run.Signal

	mu   sync.Mutex
	last Health // as of the last poll
}

// NewHealthMonitor returns a monitor whose conditions are Unknown until Run polls.
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
	return &HealthMonitor{cfg: cfg, limiter: loglimit.New(time.Minute), polled: run.NewSignal()}, nil
}

// Health returns the current health.
func (m *HealthMonitor) Health() Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.last
	h.Handlers = slices.Clone(h.Handlers)
	return h
}

// Run polls at once and then every Period until ctx is done. While polls fail, it also polls when
// DownAfter ends. It waits for the last poll and returns nil, or an error if that poll ignores its
// context for more than 10 s. The health remains available after Run. A second Run returns
// ErrAlreadyRun.
func (m *HealthMonitor) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	var group run.Group
	group.Go("Status", func() { m.poll(ctx) })
	reported := Health{}
	for {
		select {
		case <-ctx.Done():
			return run.StillRunning("cri: HealthMonitor", shutdownTimeout, group.Wait(shutdownTimeout))
		case <-m.polled:
		}
		reported = m.report(ctx, reported)
	}
}

// untilDown returns the time until any failed poll makes the runtime not ready. It reports false
// unless polls of a ready runtime fail.
func (m *HealthMonitor) untilDown() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := time.Until(m.last.failing.Add(m.cfg.DownAfter + reconnectWithin))
	return left, left > 0 && m.last.RuntimeReady.Ready() && !m.last.failing.IsZero()
}

// report compares the health with the last reported health, reported, and reports it if it differs. It
// returns the newest reported health.
func (m *HealthMonitor) report(ctx context.Context, reported Health) Health {
	now := m.Health()
	if !now.differs(reported) {
		return reported
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

// Poll polls the runtime now, beside the polls of Run, and returns the poll's error. Health then has
// the result; Run reports a change.
func (m *HealthMonitor) Poll(ctx context.Context) error { return m.pollOnce(ctx) }

// poll polls every Period until ctx is done, and at the time that decides about a failing runtime, so
// that the decision does not rest on an older poll.
func (m *HealthMonitor) poll(ctx context.Context) {
	ticker := time.NewTicker(m.cfg.Period)
	defer ticker.Stop()
	for {
		_ = m.pollOnce(ctx)
		var decisive <-chan time.Time
		if left, failing := m.untilDown(); failing {
			decisive = time.After(left)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-decisive:
			ticker.Reset(m.cfg.Period)
		}
	}
}

// pollOnce stores and returns the result of one poll, and wakes Run. It discards the result of a
// poll that the end of ctx interrupted.
func (m *HealthMonitor) pollOnce(ctx context.Context) error {
	timeout := m.cfg.Timeout
	if left, failing := m.untilDown(); failing {
		timeout = min(timeout, left)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	reply, err := m.cfg.Runtime.Status(bounded, false)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := time.Now()
	if err != nil && m.limiter.Allow(now, "status", err.Error()) {
		m.cfg.Logger.Warn("runtime status poll failed", "err", err)
	}
	m.mu.Lock()
	if err == nil {
		m.last = m.last.good(now, reply)
	} else {
		limit := m.cfg.DownAfter
		if bounded.Err() == nil {
			limit += reconnectWithin // no hanging call: the runtime may be back
		}
		// A poll that took longer than its timeout was suspended with the process. That time is no
		// absence of the runtime.
		began = slices.MaxFunc([]time.Time{began, now.Add(-timeout)}, time.Time.Compare)
		m.last = m.last.failed(began, now, err, limit)
	}
	m.mu.Unlock()
	m.polled.Wake()
	return err
}

package agent

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// rootPeriod is the period of checks of the root folder, equal to the period of housekeeping.
const rootPeriod = 2 * time.Second

// prepareRoot creates the root folder and the folders in it. ShareRoot comes first, so that the
// folders are created in the mount that the root folder becomes.
func (a *Agent) prepareRoot(ctx context.Context) error {
	if a.cfg.ShareRoot != nil {
		if err := a.cfg.ShareRoot(ctx); err != nil {
			return err
		}
	}
	return a.folders.prepare()
}

// watchRoot checks the root folder until ctx is done. It logs each new error once and reports it to
// Health.
func (a *Agent) watchRoot(ctx context.Context, l *lock) {
	last := ""
	for run.Sleep(ctx, rootPeriod) {
		err, text := l.check(), ""
		if err != nil {
			text = err.Error()
		}
		if text == last {
			continue
		}
		if last = text; err != nil {
			a.log.Error("root folder", "err", err)
		}
		a.setRoot(err)
	}
}

func (a *Agent) setRoot(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.root = err
}

func (a *Agent) rootHealth() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.root
}
